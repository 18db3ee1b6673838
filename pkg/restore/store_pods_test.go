package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// A new PD allocates ids from 1 on: an empty store may get that of one whose volumes are not there yet.
func TestCheckPods_EmptyStoreHasTheIDOfARestoredOne_IsRefused(t *testing.T) {
	t.Parallel()
	pods := map[cluster.StoreID]string{1: "copy-tikv-0", 4: "copy-kv-tikv-x7k2p9"}
	for name, row := range map[string]struct {
		store   cluster.StoreID
		address string
		refused bool
	}{
		"its pod, of Operator 1.x":        {store: 1, address: "copy-tikv-0.copy-tikv-peer.tidb.svc:20160"},
		"its pod, of Operator 2.x":        {store: 4, address: "copy-kv-tikv-x7k2p9.copy-kv-tikv-peer.tidb:20160"},
		"the pod of another":              {store: 1, address: "copy-tikv-1.copy-tikv-peer.tidb.svc:20160", refused: true},
		"a pod that the run did not make": {store: 4, address: "copy-kv-tikv-aaaaaa.copy-kv-tikv-peer.tidb:20160", refused: true},
		"an address of no pod":            {store: 4, address: "10.0.0.7:20160"},
		"a host":                          {store: 4, address: "localhost:20160"},
		"a store of another part":         {store: 9, address: "other-tikv-0.other-tikv-peer.tidb.svc:20160"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkPods(cluster.Name{Namespace: "tidb", Name: "copy"}, pods, map[cluster.StoreID]string{row.store: row.address})
			if !row.refused {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "an empty store has joined")
		})
	}
}
