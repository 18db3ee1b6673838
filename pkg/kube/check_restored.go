package kube

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// anyVolume stands in for volumes that do not exist yet during a check.
const anyVolume cluster.VolumeID = "vol-00000000000000000"

// Names are the names of the objects that are created for a volume, and of the pod that they are for.
type Names struct{ PV, Claim, Pod string }

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
	return targetFor(nil, source).checkRestored(source, to, volumes)
}

func (generation1) checkRestored(source json.RawMessage, to Target, volumes []RestoredVolume) (Checked, error) {
	made, err := operator1.Make(source, to)
	if err != nil {
		return Checked{}, err
	}
	if err := checkSize(made.Object.Object, to.Name.String()); err != nil {
		return Checked{}, err
	}
	names, err := namesOf(volumes)
	return Checked{Names: names, Dropped: made.Dropped}, err
}

// namesOf checks the objects of volumes, and returns their names.
func namesOf(volumes []RestoredVolume) ([]Names, error) {
	names := make([]Names, len(volumes))
	seen := map[string]bool{}
	for i, v := range volumes {
		v.Volume = anyVolume
		pvc, pv, err := restoredObjects(v)
		if err != nil {
			return nil, err
		}
		pod, err := v.pod()
		if err != nil {
			return nil, err
		}
		for name, object := range map[string]any{pv.Name: pv, pvc.Name: pvc} {
			if err := checkSize(object, name); err != nil {
				return nil, err
			}
			if seen[name] {
				return nil, failure.New(failure.Corrupt, "name claim", name,
					"two volumes of the backup would get this name")
			}
			seen[name] = true
		}
		names[i] = Names{PV: pv.Name, Claim: pvc.Name, Pod: pod}
	}
	return names, nil
}

// pod returns the name of the target's pod that gets the volume.
func (v *RestoredVolume) pod() (string, error) {
	var claim corev1.PersistentVolumeClaim
	if err := json.Unmarshal(v.Claim, &claim); err != nil {
		return "", failure.Wrap(err, failure.Corrupt, "make claim", "of "+string(v.Volume))
	}
	store, err := v.store(&claim.ObjectMeta)
	if err != nil {
		return "", err
	}
	return store.Pod(), nil
}
