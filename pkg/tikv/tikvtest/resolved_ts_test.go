package tikvtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/assert"
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

// The lock of a pipelined transaction holds the resolved ts back at the commit ts that its client has broadcast last.
func TestResolvedTS_PipelinedTransaction_IsHeldBackByItsCommitTSAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	start := k.now()
	k.do(key(1), func(ctx context.Context, kv tikvpb.TikvClient, at *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvFlush(ctx, &kvrpcpb.FlushRequest{
			Context: at, PrimaryKey: key(1), StartTs: start, MinCommitTs: start + 1, Generation: 1, LockTtl: 60_000,
			Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key(1), Value: []byte("v")}},
		})
		require.NoError(t, err)
		require.Empty(t, resp.Errors)
		return resp.RegionError
	})
	// A round of the resolved ts that began before the flush may have gone above start; one that began after it is held back.
	commit := k.now()
	before := c.pd.reported()
	for _, s := range c.stores {
		require.Eventually(t, func() bool { return c.pd.reported()[s.ID()] > before[s.ID()]+1 }, 30*time.Second, time.Millisecond)
	}
	require.Less(t, c.pd.minResolved(3), commit, "its client has sent nothing")
	for _, s := range c.stores {
		_, err := k.on(s).BroadcastTxnStatus(t.Context(), &kvrpcpb.BroadcastTxnStatusRequest{
			TxnStatus: []*kvrpcpb.TxnStatus{{StartTs: start, MinCommitTs: commit}, {StartTs: start, MinCommitTs: start + 1}},
		})
		require.NoError(t, err)
	}
	require.EventuallyWithT(t, func(now *assert.CollectT) { assert.Equal(now, commit, c.pd.minResolved(3)) }, 30*time.Second, time.Millisecond)
}
