package mvcc_test

import (
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// future sends a prewrite that gets its timestamp from the store.
func (c *client) future(req *kvrpcpb.PrewriteRequest, maxTS uint64) *kvrpcpb.PrewriteResponse {
	req.PrimaryLock, req.LockTtl = req.Mutations[0].Key, 1000
	resp, muts := mvcc.Prewrite(c, req, maxTS)
	require.Empty(c.t, resp.Errors)
	c.apply(muts)
	return resp
}

func TestPrewrite_OnePhase_CommitsAboveAllThatWasRead(t *testing.T) {
	t.Parallel()
	for _, req := range []*kvrpcpb.PrewriteRequest{
		{StartVersion: 100, TryOnePc: true, MinCommitTs: 101},
		{StartVersion: 100, TryOnePc: true, UseAsyncCommit: true, MaxCommitTs: 1000},
	} {
		c := newClient(t)
		req.Mutations = []*kvrpcpb.Mutation{put("a", "1"), put("b", "2")}
		require.EqualValues(t, 501, c.future(req, 500).OnePcCommitTs)
		require.Zero(t, c.lockCount())
		require.Empty(t, c.value("a", 500))
		require.Equal(t, "1", c.value("a", 501))
		require.Equal(t, "2", c.value("b", 501))
		require.EqualValues(t, 501, c.future(req, 800).OnePcCommitTs, "the answer was lost, and the request comes again")
		require.Equal(t, "1", c.value("a", math.MaxUint64))
	}
}

func TestPrewrite_AboveItsLimit_FallsBackToTwoPhases(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	resp := c.future(&kvrpcpb.PrewriteRequest{
		StartVersion: 100, TryOnePc: true, UseAsyncCommit: true, MaxCommitTs: 400, Mutations: []*kvrpcpb.Mutation{put("a", "1")},
	}, 500)
	require.Zero(t, resp.OnePcCommitTs)
	require.Zero(t, resp.MinCommitTs)
	require.Equal(t, 1, c.lockCount())
	require.Nil(t, c.commit(100, 600, "a"))
	require.Equal(t, "1", c.value("a", 600))
}

// An asynchronous transaction is decided by its secondaries, whose names its primary has: no reader pushes it, and an
// expired primary is not rolled back by itself.
func TestPrewrite_AsyncCommit_IsDecidedByItsSecondaries(t *testing.T) {
	t.Parallel()
	c, start := newClient(t), ts(1000, 0)
	req := &kvrpcpb.PrewriteRequest{
		StartVersion: start, UseAsyncCommit: true, Secondaries: raw([]string{"b"}), Mutations: []*kvrpcpb.Mutation{put("a", "1")},
	}
	require.Equal(t, start+8, c.future(req, start+7).MinCommitTs)
	require.Equal(t, start+8, c.future(req, start+3).MinCommitTs, "a repeat has the first one's timestamp")
	status, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey: []byte("a"), LockTs: start, CallerStartTs: start + 50, CurrentTs: ts(9000, 0), RollbackIfNotExist: true,
	})
	require.Empty(t, muts)
	require.True(t, status.LockInfo.UseAsyncCommit)
	require.Equal(t, raw([]string{"b"}), status.LockInfo.Secondaries)
	require.Positive(t, status.LockTtl)
	secondaries, muts := mvcc.CheckSecondaryLocks(c, &kvrpcpb.CheckSecondaryLocksRequest{StartVersion: start, Keys: raw([]string{"b"})})
	require.Zero(t, secondaries.CommitTs, "it was never locked: the transaction is rolled back")
	require.Empty(t, secondaries.Locks)
	require.NotEmpty(t, muts)
	forced, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey: []byte("a"), LockTs: start, CurrentTs: ts(9000, 0), ForceSyncCommit: true,
	})
	require.Equal(t, kvrpcpb.Action_TTLExpireRollback, forced.Action)
	require.NotEmpty(t, muts)
}
