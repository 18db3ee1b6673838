package mvcc_test

import (
	"math"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

func TestPrewrite_LockedByOther_AnswersKeyIsLocked(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1"), put("b", "1")))
	errs := c.prewrite(ts(11, 0), put("c", "2"), put("b", "2"), put("a", "2"))
	require.Len(t, errs, 2, "all locks are named, so that all are resolved at once")
	require.Equal(t, []byte("b"), errs[0].Locked.Key)
	require.Equal(t, []byte("a"), errs[0].Locked.PrimaryLock)
	require.Equal(t, ts(10, 0), errs[0].Locked.LockVersion)
	require.Equal(t, uint64(1000), errs[0].Locked.LockTtl)
	require.Equal(t, 2, c.lockCount(), "the free key c is not locked either")
}

func TestPrewrite_NewerCommit_IsWriteConflict(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(20, 0), put("a", "1"))
	errs := c.prewrite(ts(15, 0), put("a", "2"))
	require.Len(t, errs, 1)
	require.Equal(t, ts(20, 0), errs[0].Conflict.ConflictCommitTs)
	require.Equal(t, ts(10, 0), errs[0].Conflict.ConflictTs)
	require.Equal(t, kvrpcpb.WriteConflict_Optimistic, errs[0].Conflict.Reason)
	require.Empty(t, c.prewrite(ts(21, 0), put("a", "2")))
}

func TestPrewrite_Repeated_IsHarmless(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1")))
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1")))
	require.Nil(t, c.commit(ts(10, 0), ts(11, 0), "a"))
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1")), "a late repeat after the commit")
	require.Zero(t, c.lockCount(), "and it leaves no lock")
}

func TestPrewrite_AfterRollback_IsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Nil(t, c.rollback(ts(10, 0), "a"))
	errs := c.prewrite(ts(10, 0), put("a", "1"))
	require.Len(t, errs, 1)
	require.Equal(t, kvrpcpb.WriteConflict_SelfRolledBack, errs[0].Conflict.Reason)
}

func TestPrewrite_InsertAndCheckNotExists_LookForTheKey(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	insert := func(start uint64, op kvrpcpb.Op, key string) []*kvrpcpb.KeyError {
		return c.prewrite(start, &kvrpcpb.Mutation{Op: op, Key: []byte(key), Value: []byte("v")})
	}
	c.write(ts(10, 0), ts(11, 0), put("a", "1"))
	require.Equal(t, []byte("a"), insert(ts(12, 0), kvrpcpb.Op_Insert, "a")[0].AlreadyExist.Key)
	require.Equal(t, []byte("a"), insert(ts(12, 0), kvrpcpb.Op_CheckNotExists, "a")[0].AlreadyExist.Key)
	require.Empty(t, insert(ts(12, 0), kvrpcpb.Op_CheckNotExists, "b"))
	require.Zero(t, c.lockCount(), "a check takes no lock")
	c.write(ts(13, 0), ts(14, 0), del("a"))
	require.Empty(t, insert(ts(15, 0), kvrpcpb.Op_Insert, "a"))
	require.Nil(t, c.commit(ts(15, 0), ts(16, 0), "a"))
	require.Equal(t, "v", c.value("a", ts(17, 0)))
}

func TestPrewrite_FailedAssertion_NamesTheVersion(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(11, 0), put("a", "1"))
	m := put("a", "2")
	m.Assertion = kvrpcpb.Assertion_NotExist
	errs := c.prewriteReq(&kvrpcpb.PrewriteRequest{
		Mutations: []*kvrpcpb.Mutation{m}, PrimaryLock: m.Key, StartVersion: ts(12, 0), LockTtl: 1,
		AssertionLevel: kvrpcpb.AssertionLevel_Strict,
	})
	require.Equal(t, ts(11, 0), errs[0].AssertionFailed.ExistingCommitTs)
}

func TestCommit_ShortLongAndEmptyValues_AreReadBack(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	long := strings.Repeat("x", 65)
	c.write(ts(10, 0), ts(11, 0), put("long", long), put("short", long[:64]))
	require.Equal(t, 1, c.cfs[mvcc.CFDefault].Len())
	require.Equal(t, long, c.value("long", ts(11, 0)))
	require.Equal(t, long[:64], c.value("short", ts(11, 0)))
	require.Empty(t, c.value("long", ts(10, 9)), "nothing before the commit ts")
	c.write(ts(12, 0), ts(13, 0), put("long", ""))
	require.False(t, c.get("long", ts(14, 0)).NotFound, "an empty value is a value")
	require.Equal(t, long, c.value("long", ts(12, 9)))
}

func TestCommit_WithoutLock_ReportsWhatHappened(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(11, 0), put("a", "1"))
	require.Nil(t, c.commit(ts(10, 0), ts(11, 0), "a"), "committed already")
	require.Nil(t, c.rollback(ts(12, 0), "a"))
	keyErr := c.commit(ts(12, 0), ts(13, 0), "a")
	require.NotEmpty(t, keyErr.Retryable)
	require.Equal(t, []byte("a"), keyErr.TxnLockNotFound.Key)
	require.NotNil(t, c.commit(ts(14, 0), ts(15, 0), "never"))
	require.NotEmpty(t, c.commit(ts(10, 0), ts(10, 0), "a").Abort, "commit ts must be above start ts")
}

func TestCommit_BelowPushedTS_IsExpired(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1")))
	resp := c.status("a", ts(10, 0), ts(20, 0), ts(20, 1))
	require.Equal(t, kvrpcpb.Action_MinCommitTSPushed, resp.Action)
	require.Equal(t, uint64(1000), resp.LockTtl)
	require.True(t, c.get("a", ts(20, 0)).NotFound, "the reader that pushed may pass the lock")
	require.NotNil(t, c.get("a", ts(20, 1)).Error.Locked, "a later one may not")
	keyErr := c.commit(ts(10, 0), ts(20, 0), "a")
	require.Equal(t, ts(20, 1), keyErr.CommitTsExpired.MinCommitTs)
	require.Nil(t, c.commit(ts(10, 0), ts(20, 1), "a"))
}

func TestRollback_Committed_Aborts(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(11, 0), put("a", "1"))
	require.Contains(t, c.rollback(ts(10, 0), "b", "a").Abort, "Committed")
	require.Equal(t, "1", c.value("a", ts(12, 0)))
}

func TestRollback_LongValue_IsDropped(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(10, 0), put("a", strings.Repeat("x", 100))))
	require.Nil(t, c.rollback(ts(10, 0), "a"))
	require.Nil(t, c.rollback(ts(10, 0), "a"), "idempotent")
	require.Zero(t, c.cfs[mvcc.CFDefault].Len())
	require.Zero(t, c.lockCount())
}

func TestRollback_Many_CollapseButProtectedOnesStay(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for i := range uint64(5) {
		require.Nil(t, c.rollback(ts(10+i, 0), "a"))
	}
	require.Equal(t, 1, c.cfs[mvcc.CFWrite].Len())
	require.Equal(t, kvrpcpb.Action_LockNotExistRollback, c.status("a", ts(20, 0), 0, 0).Action)
	require.Nil(t, c.rollback(ts(21, 0), "a"))
	require.Equal(t, 2, c.cfs[mvcc.CFWrite].Len())
	require.NotNil(t, c.commit(ts(20, 0), ts(22, 0), "a"))
}

func TestRollback_AtForeignCommitTS_KeepsBoth(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(20, 0), put("a", "1"))
	require.Nil(t, c.rollback(ts(20, 0), "a"))
	require.Equal(t, "1", c.value("a", ts(21, 0)))
	require.Equal(t, kvrpcpb.WriteConflict_SelfRolledBack, c.prewrite(ts(20, 0), put("a", "2"))[0].Conflict.Reason)
	require.Zero(t, c.status("a", ts(20, 0), 0, 0).CommitVersion)
	require.Equal(t, ts(20, 0), c.status("a", ts(10, 0), 0, 0).CommitVersion)

	require.Empty(t, c.prewrite(ts(30, 0), put("b", "1")))
	require.Nil(t, c.rollback(ts(40, 0), "b"))
	require.Nil(t, c.commit(ts(30, 0), ts(40, 0), "b"))
	require.Equal(t, "1", c.value("b", ts(41, 0)))
	require.NotEmpty(t, c.prewrite(ts(40, 0), put("b", "2")), "the commit did not wipe the rollback out")
}

func TestCleanup_ExpiryDecides(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(10, 0), put("a", "1")))
	cleanup := func(start, now uint64) *kvrpcpb.CleanupResponse {
		resp, muts := mvcc.Cleanup(c, &kvrpcpb.CleanupRequest{Key: []byte("a"), StartVersion: start, CurrentTs: now})
		c.apply(muts)
		return resp
	}
	require.NotNil(t, cleanup(ts(10, 0), ts(1010, 0)).Error.Locked)
	require.Nil(t, cleanup(ts(10, 0), ts(1011, 0)).Error)
	require.Zero(t, c.lockCount())
	c.write(ts(20, 0), ts(21, 0), put("a", "1"))
	require.Equal(t, ts(21, 0), cleanup(ts(20, 0), 0).CommitVersion)
}

func TestGet_Locks_BlockOnlyWhatTheyMust(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(11, 0), put("a", "old"), put("b", "old"))
	muts := []*kvrpcpb.Mutation{put("a", "new"), del("b"), {Op: kvrpcpb.Op_Lock, Key: []byte("c")}}
	require.Empty(t, c.prewriteReq(&kvrpcpb.PrewriteRequest{
		Mutations: muts, PrimaryLock: []byte("a"), StartVersion: ts(20, 0), LockTtl: 1000,
	}))
	require.Equal(t, "old", c.value("a", ts(19, 0)))
	require.NotNil(t, c.get("a", ts(20, 0)).Error.Locked)
	require.Equal(t, "old", c.value("a", math.MaxUint64), "a read of the newest version passes the primary")
	require.NotNil(t, c.get("b", math.MaxUint64).Error.Locked, "but not a secondary")
	require.True(t, c.get("c", ts(30, 0)).NotFound, "a lock without data blocks no read")

	read := func(ctx *kvrpcpb.Context) []*kvrpcpb.KvPair {
		return mvcc.BatchGet(c, &kvrpcpb.BatchGetRequest{
			Context: ctx, Keys: raw([]string{"a", "b", "c"}), Version: ts(30, 0),
		}).Pairs
	}
	require.Len(t, read(nil), 2)
	require.Equal(t, []byte("b"), read(nil)[1].Error.Locked.Key)
	require.Equal(t, "old", string(read(&kvrpcpb.Context{ResolvedLocks: []uint64{ts(20, 0)}})[1].Value))
	committed := read(&kvrpcpb.Context{CommittedLocks: []uint64{ts(20, 0)}})
	require.Len(t, committed, 1, "b is deleted by its lock")
	require.Equal(t, "new", string(committed[0].Value))
	require.Equal(t, "old", string(read(&kvrpcpb.Context{IsolationLevel: kvrpcpb.IsolationLevel_RC})[0].Value))
}
