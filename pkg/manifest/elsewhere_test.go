package manifest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestElsewhere_PeerStoresOfTheTidbCluster_AreListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object string
		want   []cluster.StoreID
		kind   failure.Kind // 0 is none
	}{
		"no object":   {"", nil, 0},
		"no peers":    {`{"status":{"tikv":{"stores":{"4":{}}}}}`, nil, 0},
		"null":        {`null`, nil, 0},
		"two, sorted": {`{"status":{"tikv":{"peerStores":{"12":{},"7":{"state":"Up"}}}}}`, []cluster.StoreID{7, 12}, 0},
		"no number":   {`{"status":{"tikv":{"peerStores":{"a":{}}}}}`, nil, failure.Corrupt},
		"cut off":     {`{"status":`, nil, failure.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &manifest.Manifest{Kubernetes: manifest.Kubernetes{TidbCluster: []byte(c.object)}}
			got, err := m.Elsewhere()
			if c.kind != 0 {
				require.Equal(t, c.kind, failure.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// Of a cluster in several Kubernetes clusters, replicas may be that of the part or that of the whole.
func TestValidate_ReplicasOfAPart_AreThoseOfThePartOrOfAll(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("testdata/backupmeta.recorded.json")
	require.NoError(t, err)
	d, err := manifest.ParseBR(doc)
	require.NoError(t, err)
	d.Kubernetes.TidbCluster = []byte(`{"status":{"tikv":{"peerStores":{"71":{},"72":{}}}}}`)
	for replicas, valid := range map[int]bool{2: false, 3: true, 4: false, 5: true, 9: false} {
		d.TiKV.Replicas = replicas
		require.Equal(t, valid, d.Validate() == nil, "%d", replicas)
	}
}
