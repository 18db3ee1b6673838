package tikvtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// TiKV leaves the child of a split out of its resolved ts until it has read the child's locks (tikv/tikv#15506): the
// minimum rises above a lock, and only the child itself knows of it.
func TestResolvedTS_ChildOfASplit_IsLeftOutUntilItIsInitialized(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	start := k.prewrite(key(1), []byte("v"))
	require.Eventually(t, func() bool { return c.pd.minResolved(3) > 0 }, 30*time.Second, time.Millisecond)
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.ResolvedTS.Initialize", Code: "Unavailable", Times: -1}))
	require.NoError(t, tikvtest.SplitAt(c.ctx(10*time.Second), c.stores, key(10))) // the left part is the new region
	require.Eventually(t, func() bool { return c.pd.minResolved(3) > start }, 30*time.Second, time.Millisecond, "above the lock")
	c.faults.Clear()
	require.Eventually(t, func() bool { return c.pd.minResolved(3) == start }, 30*time.Second, time.Millisecond, "the stores know it now")
}
