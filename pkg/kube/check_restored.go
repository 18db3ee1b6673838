package kube

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// anyVolume stands for the volumes that a check is made before.
const anyVolume cluster.VolumeID = "vol-00000000000000000"

// Names are those of the objects that BindVolume makes.
type Names struct{ PV, Claim string }

// CheckRestored refuses, without asking anybody, what CreateCluster and BindVolume would refuse for the sake
// of the source's objects: so a restore finds it before it makes anything. The volumes need no ids. It
// returns the names that each volume's PV and claim get, in the order of volumes.
func CheckRestored(source json.RawMessage, target cluster.Name, run cluster.RunID, volumes []RestoredVolume) ([]Names, error) {
	o, err := targetCluster(source, target, run)
	if err != nil {
		return nil, err
	}
	if err := checkSize(o.Object, target.String()); err != nil {
		return nil, err
	}
	names := make([]Names, len(volumes))
	seen := map[string]bool{}
	for i, v := range volumes {
		v.Volume = anyVolume
		pvc, pv, err := restoredObjects(v)
		if err != nil {
			return nil, err
		}
		for name, object := range map[string]any{pv.Name: pv, pvc.Name: pvc} {
			if err := checkSize(object, name); err != nil {
				return nil, err
			}
			if seen[name] {
				return nil, failure.New(failure.Corrupt, "name claim", name, "two volumes of the backup would get this name")
			}
			seen[name] = true
		}
		names[i] = Names{PV: pv.Name, Claim: pvc.Name}
	}
	return names, nil
}
