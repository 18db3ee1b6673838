package restore

import (
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// checkShape refuses an existing target whose stores could not open the backup's volumes: another version, another
// number of volumes per store, other encryption at rest.
func (t *target) checkShape(tc kube.TidbCluster, m *manifest.Manifest) error {
	refuse := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Unready, "check target", t.opts.Target.String(), format, args...)
	}
	source := m.Source
	if want := strings.TrimPrefix(source.Version, "v"); tc.Version != "" &&
		strings.TrimPrefix(tc.Version, "v") != want {
		return refuse("it runs TiKV %s and the backup is of %s", tc.Version, source.Version).
			WithHint("set spec.version to v%s: upgrade after the restore", want)
	}
	target, err := operator1.ShapeOf(tc.Object)
	if err != nil {
		return err
	}
	for _, st := range source.Stores {
		if len(st.Volumes) != target.Volumes {
			return refuse("its stores have %d volumes and store %s of the backup has %d", target.Volumes, st.ID,
				len(st.Volumes)).
				WithHint("make spec.tikv.storageVolumes as the source had them, or let the restore make the cluster")
		}
	}
	from, err := operator1.ShapeOf(m.Kubernetes.TidbCluster)
	if err != nil {
		return err
	}
	if !from.SameEncryption(target) {
		return refuse(
			"its encryption at rest (security.encryption of TiKV) is not the source's: it could not open the data").
			WithHint("take the source's spec.tikv.config, with the same master key")
	}
	return nil
}
