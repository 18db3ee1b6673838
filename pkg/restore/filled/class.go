package filled

import (
	"encoding/json"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// OfClass returns the manifest with the chosen StorageClass in place of all of the source's, PD's too: another cloud
// does not have these.
func (w *Way) OfClass(m *manifest.Manifest) (*manifest.Manifest, error) {
	if w.Class == "" {
		return m, nil
	}
	out := *m
	k := &out.Kubernetes
	k.Objects, k.PVCs, k.PVs = slices.Clone(k.Objects), slices.Clone(k.PVCs), slices.Clone(k.PVs)
	all := []*json.RawMessage{}
	if len(k.TidbCluster) > 0 {
		all = append(all, &k.TidbCluster)
	}
	for _, list := range [][]json.RawMessage{k.Objects, k.PVCs, k.PVs} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for _, raw := range all {
		changed, err := kube.OfClass(*raw, w.Class)
		if err != nil {
			return nil, failure.Annotate(err, "set storage class", string(m.ID))
		}
		*raw = changed
	}
	return &out, nil
}
