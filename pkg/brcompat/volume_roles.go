package brcompat

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// fillRoles derives a missing volume type from the TiKV folder below the volume's mount path. TiDB Operator omits the
// type if the folder is not the mount path itself, or if its key is in a table, such as "dir" of [raft-engine]. Kinds:
// Corrupt.
func fillRoles(d *manifest.BRMeta) error {
	var object struct {
		Spec struct {
			TiKV struct{ Config any }
		}
	}
	if len(d.Kubernetes.TidbCluster) > 0 {
		if err := json.Unmarshal(d.Kubernetes.TidbCluster, &object); err != nil {
			return failure.Wrap(err, failure.Corrupt, "read crd_tidb_cluster", "")
		}
	}
	for _, s := range d.TiKV.Stores {
		for i := range s.Volumes {
			v := &s.Volumes[i]
			if v.Role != "" || v.MountPath == "" {
				continue
			}
			role, err := operator1.VolumeRole(object.Spec.TiKV.Config, v.MountPath)
			if err != nil {
				return failure.Annotate(err, "find the type of volume",
					v.ID+" of store "+cluster.StoreID(s.ID).String())
			}
			v.Role = string(role)
		}
	}
	return nil
}
