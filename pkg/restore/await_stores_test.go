package restore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// It was waited for with one store too many until the deadline, and PD may move peers to it meanwhile.
func TestAwaitStores_EmptyStoreJoins_IsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{}, Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}}, byRun)
	r.backup.Manifest = &manifest.Manifest{}
	ids := []cluster.StoreID{1, 4}
	require.NoError(t, r.checkForeign(ids, map[cluster.StoreID]time.Time{4: {}}))
	err := r.checkForeign(ids, map[cluster.StoreID]time.Time{1: {}, 4: {}, 6: {}})
	require.ErrorContains(t, err, "store 6 is up")
	require.False(t, failure.NotYet(err), "waiting does not help")
}
