package kube

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// anyVolume stands in for volumes that do not exist yet during a check.
const anyVolume cluster.VolumeID = "vol-00000000000000000"

// Names are the names of the objects that BindVolume creates.
type Names struct{ PV, Claim string }

// Checked is what a restore will create.
type Checked struct {
	// Names are those of each volume's PV and claim, in the order of the volumes.
	Names []Names
	// Dropped are the source's service settings that the target does not get.
	Dropped []string
}

// CheckRestored rejects source objects that CreateCluster and BindVolume would reject, without any call and before a
// restore creates anything. The volumes need no ids.
func CheckRestored(source json.RawMessage, to Target, volumes []RestoredVolume) (Checked, error) {
	made, err := operator1.Make(source, to)
	if err != nil {
		return Checked{}, err
	}
	if err := checkSize(made.Object.Object, to.Name.String()); err != nil {
		return Checked{}, err
	}
	names := make([]Names, len(volumes))
	seen := map[string]bool{}
	for i, v := range volumes {
		v.Volume = anyVolume
		pvc, pv, err := restoredObjects(v)
		if err != nil {
			return Checked{}, err
		}
		for name, object := range map[string]any{pv.Name: pv, pvc.Name: pvc} {
			if err := checkSize(object, name); err != nil {
				return Checked{}, err
			}
			if seen[name] {
				return Checked{}, failure.New(failure.Corrupt, "name claim", name,
					"two volumes of the backup would get this name")
			}
			seen[name] = true
		}
		names[i] = Names{PV: pv.Name, Claim: pvc.Name}
	}
	return Checked{Names: names, Dropped: made.Dropped}, nil
}
