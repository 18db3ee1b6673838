package mvcc_test

import (
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

func TestCheckTxnStatus_EachState_HasItsAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(10, 0), ts(11, 0), put("done", "1"))
	require.Equal(t, ts(11, 0), c.status("done", ts(10, 0), 0, 0).CommitVersion)

	require.Empty(t, c.prewrite(ts(20, 0), put("p", "1"), put("s", "1")))
	alive := c.status("p", ts(20, 0), 0, ts(1020, 0))
	require.Equal(t, kvrpcpb.Action_NoAction, alive.Action)
	require.Equal(t, uint64(1000), alive.LockTtl)
	require.Equal(t, kvrpcpb.Action_TTLExpireRollback, c.status("p", ts(20, 0), 0, ts(1021, 0)).Action)
	again := c.status("p", ts(20, 0), 0, ts(1021, 0))
	require.Equal(t, kvrpcpb.Action_NoAction, again.Action)
	require.Zero(t, again.CommitVersion+again.LockTtl)
	require.NotNil(t, c.commit(ts(20, 0), ts(30, 0), "p"))

	require.Equal(t, kvrpcpb.Action_LockNotExistRollback, c.status("p", ts(40, 0), 0, 0).Action)
	require.NotEmpty(t, c.prewrite(ts(40, 0), put("p", "1")), "the rollback refuses a late prewrite")
}

func TestCheckTxnStatus_NotAllowedToRollBack_IsTxnNotFound(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	resp, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{PrimaryKey: []byte("p"), LockTs: 7})
	require.Equal(t, uint64(7), resp.Error.TxnNotFound.StartTs)
	require.Empty(t, muts)
}

func TestCheckTxnStatus_SecondaryTakenForPrimary_IsMismatch(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(20, 0), put("p", "1"), put("s", "1")))
	resp, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey: []byte("s"), LockTs: ts(20, 0), CurrentTs: math.MaxUint64, VerifyIsPrimary: true,
	})
	require.Equal(t, []byte("p"), resp.Error.PrimaryMismatch.LockInfo.PrimaryLock)
	require.Empty(t, muts)
}

func TestTxnHeartBeat_RaisesTTLOnly(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	beat := func(ttl uint64) *kvrpcpb.TxnHeartBeatResponse {
		resp, muts := mvcc.TxnHeartBeat(c, &kvrpcpb.TxnHeartBeatRequest{
			PrimaryLock: []byte("p"), StartVersion: ts(20, 0), AdviseLockTtl: ttl,
		})
		c.apply(muts)
		return resp
	}
	require.NotNil(t, beat(5000).Error.TxnNotFound)
	require.Empty(t, c.prewrite(ts(20, 0), put("p", "1")))
	require.Equal(t, uint64(5000), beat(5000).LockTtl)
	require.Equal(t, uint64(5000), beat(10).LockTtl)
	require.Equal(t, uint64(5000), c.status("p", ts(20, 0), 0, ts(5020, 0)).LockTtl)
}

func TestCheckSecondaryLocks_MissingOne_DecidesTheTransaction(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	check := func(start uint64, keys ...string) *kvrpcpb.CheckSecondaryLocksResponse {
		resp, muts := mvcc.CheckSecondaryLocks(c, &kvrpcpb.CheckSecondaryLocksRequest{
			Keys: raw(keys), StartVersion: start,
		})
		c.apply(muts)
		return resp
	}
	require.Empty(t, c.prewrite(ts(20, 0), put("a", "1"), put("b", "1")))
	require.Len(t, check(ts(20, 0), "a", "b").Locks, 2)
	require.Nil(t, c.commit(ts(20, 0), ts(21, 0), "a"))
	require.Equal(t, ts(21, 0), check(ts(20, 0), "a", "b").CommitTs)
	missing := check(ts(30, 0), "c")
	require.Zero(t, missing.CommitTs)
	require.Empty(t, missing.Locks)
	require.NotEmpty(t, c.prewrite(ts(30, 0), put("c", "1")))
}

func TestResolveLock_LiteAndBatch_FollowTheStatus(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	resolve := func(r mvcc.Reader, req *kvrpcpb.ResolveLockRequest) {
		_, muts := mvcc.ResolveLock(r, req)
		c.apply(muts)
	}
	require.Empty(t, c.prewrite(ts(20, 0), put("a", "1"), put("b", "1"), put("c", "1")))
	require.Empty(t, c.prewrite(ts(30, 0), put("d", "2"), put("e", "2")))
	require.Empty(t, c.prewrite(ts(40, 0), put("f", "3")))
	resolve(c, &kvrpcpb.ResolveLockRequest{StartVersion: ts(20, 0), CommitVersion: ts(50, 0), Keys: raw([]string{"b", "d", "x"})})
	require.Equal(t, "1", c.value("b", ts(60, 0)))
	require.Equal(t, 5, c.lockCount())

	infos := []*kvrpcpb.TxnInfo{{Txn: ts(20, 0), Status: ts(50, 0)}, {Txn: ts(30, 0)}}
	region := mvcc.Range{Start: mvcc.EncodeKey([]byte("b")), End: mvcc.EncodeKey([]byte("e"))}
	resolve(mvcc.Within(c, region), &kvrpcpb.ResolveLockRequest{TxnInfos: infos})
	require.Equal(t, "1", c.value("c", ts(60, 0)))
	require.Empty(t, c.value("d", ts(60, 0)))
	require.Equal(t, 3, c.lockCount(), "a and e are not of the region, f is of another transaction")
	resolve(c, &kvrpcpb.ResolveLockRequest{TxnInfos: infos})
	require.Equal(t, 1, c.lockCount())
	resolve(c, &kvrpcpb.ResolveLockRequest{StartVersion: ts(40, 0)})
	require.Zero(t, c.lockCount())
}

// notFlushed is of transactions that are not pipelined.
func notFlushed(startTS uint64) uint64 { return startTS }

func TestScanLockAndMinLockTS_GoOverTheRange(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.prewrite(ts(30, 0), put("a", "1"), put("b", "1"), put("c", "1")))
	require.Empty(t, c.prewrite(ts(20, 0), put("d", "1")))
	require.Empty(t, c.prewrite(ts(10, 0), &kvrpcpb.Mutation{Op: kvrpcpb.Op_Lock, Key: []byte("e")}))
	scan := func(req *kvrpcpb.ScanLockRequest) (keys []string) {
		for _, l := range mvcc.ScanLock(c, req).Locks {
			keys = append(keys, string(l.Key))
		}
		return keys
	}
	require.Equal(t, []string{"d", "e"}, scan(&kvrpcpb.ScanLockRequest{MaxVersion: ts(20, 0)}))
	require.Equal(t, []string{"b", "c"}, scan(&kvrpcpb.ScanLockRequest{
		MaxVersion: ts(99, 0), StartKey: []byte("b"), EndKey: []byte("d"),
	}))
	require.Equal(t, []string{"a", "b"}, scan(&kvrpcpb.ScanLockRequest{MaxVersion: ts(99, 0), Limit: 2}))

	least, ok := mvcc.MinLockTS(c, mvcc.Range{}, notFlushed)
	require.True(t, ok)
	require.Equal(t, ts(20, 0), least, "a lock without data holds no resolved ts back")
	least, _ = mvcc.MinLockTS(c, mvcc.Range{End: mvcc.EncodeKey([]byte("d"))}, notFlushed)
	require.Equal(t, ts(30, 0), least)
	_, ok = mvcc.MinLockTS(c, mvcc.Range{Start: mvcc.EncodeKey([]byte("e"))}, notFlushed)
	require.False(t, ok)
}

func TestPessimistic_LockPrewriteCommit(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	lock := func(start, forUpdate uint64, keys ...string) *kvrpcpb.PessimisticLockResponse {
		req := &kvrpcpb.PessimisticLockRequest{
			PrimaryLock: []byte(keys[0]), StartVersion: start, ForUpdateTs: forUpdate, LockTtl: 1000, ReturnValues: true,
		}
		for _, k := range keys {
			req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: []byte(k)})
		}
		resp, muts := mvcc.PessimisticLock(c, req)
		c.apply(muts)
		return resp
	}
	c.write(ts(10, 0), ts(20, 0), put("a", "1"))
	require.NotNil(t, lock(ts(15, 0), ts(15, 0), "a").Errors[0].Conflict)
	got := lock(ts(15, 0), ts(25, 0), "a", "b")
	require.Empty(t, got.Errors)
	require.Equal(t, [][]byte{[]byte("1"), nil}, got.Values)
	require.Equal(t, []bool{false, true}, got.NotFounds)
	require.Equal(t, "1", c.value("a", ts(30, 0)), "a pessimistic lock blocks no reader")
	require.NotNil(t, lock(ts(26, 0), ts(26, 0), "a").Errors[0].Locked)
	require.NotNil(t, c.prewrite(ts(26, 0), put("a", "9"))[0].Locked)

	check := kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
	prewrite := func(start uint64, keys ...string) []*kvrpcpb.KeyError {
		req := &kvrpcpb.PrewriteRequest{
			PrimaryLock: []byte(keys[0]), StartVersion: start, ForUpdateTs: ts(25, 0), LockTtl: 1000,
		}
		for _, k := range keys {
			req.Mutations = append(req.Mutations, put(k, "2"))
			req.PessimisticActions = append(req.PessimisticActions, check)
		}
		return c.prewriteReq(req)
	}
	require.Empty(t, prewrite(ts(15, 0), "a", "b"))
	require.Nil(t, c.commit(ts(15, 0), ts(28, 0), "a", "b"))
	require.Equal(t, "2", c.value("b", ts(29, 0)))
	require.Contains(t, prewrite(ts(14, 0), "a")[0].Abort, "PessimisticLockNotFound")

	require.Empty(t, lock(ts(40, 0), ts(40, 0), "a", "b").Errors)
	_, muts := mvcc.PessimisticRollback(c, &kvrpcpb.PessimisticRollbackRequest{
		StartVersion: ts(40, 0), ForUpdateTs: ts(40, 0), Keys: raw([]string{"a"}),
	})
	c.apply(muts)
	require.Equal(t, 1, c.lockCount())
	_, muts = mvcc.PessimisticRollback(c, &kvrpcpb.PessimisticRollbackRequest{
		StartVersion: ts(40, 0), ForUpdateTs: ts(40, 0),
	})
	c.apply(muts)
	require.Zero(t, c.lockCount())
}

func TestPessimistic_ExpiredPrimary_IsDroppedWithoutRecord(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	_, muts := mvcc.PessimisticLock(c, &kvrpcpb.PessimisticLockRequest{
		Mutations: []*kvrpcpb.Mutation{put("a", "")}, PrimaryLock: []byte("a"),
		StartVersion: ts(10, 0), ForUpdateTs: ts(10, 0), LockTtl: 10,
	})
	c.apply(muts)
	status := func() kvrpcpb.Action {
		resp, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{
			PrimaryKey: []byte("a"), LockTs: ts(10, 0), CurrentTs: ts(99, 0),
			RollbackIfNotExist: true, ResolvingPessimisticLock: true,
		})
		c.apply(muts)
		return resp.Action
	}
	require.Equal(t, kvrpcpb.Action_TTLExpirePessimisticRollback, status())
	require.Equal(t, kvrpcpb.Action_LockNotExistDoNothing, status())
	require.Zero(t, c.cfs[mvcc.CFWrite].Len())
}
