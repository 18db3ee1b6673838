package mvcc_test

import (
	"bytes"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/btree"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is the simplest Reader that mutations can be applied to.
type store struct {
	cfs map[mvcc.CF]*btree.Map[string, []byte]
}

func newStore() *store {
	s := &store{cfs: map[mvcc.CF]*btree.Map[string, []byte]{}}
	for _, cf := range []mvcc.CF{mvcc.CFDefault, mvcc.CFLock, mvcc.CFWrite} {
		s.cfs[cf] = &btree.Map[string, []byte]{}
	}
	return s
}

func (s *store) apply(muts []mvcc.Mutation) {
	for _, m := range muts {
		if m.Delete {
			s.cfs[m.CF].Delete(string(m.Key))
			continue
		}
		s.cfs[m.CF].Set(string(m.Key), bytes.Clone(m.Value))
	}
}

func (s *store) Get(cf mvcc.CF, key []byte) ([]byte, bool) { return s.cfs[cf].Get(string(key)) }

func (s *store) Ascend(cf mvcc.CF, start, end []byte, fn func(k, v []byte) bool) {
	s.cfs[cf].Ascend(string(start), func(k string, v []byte) bool {
		return (len(end) == 0 || k < string(end)) && fn([]byte(k), v)
	})
}

func (s *store) Descend(cf mvcc.CF, start, end []byte, fn func(k, v []byte) bool) {
	visit := func(k string, v []byte) bool {
		if len(end) > 0 && k >= string(end) {
			return true
		}
		return k >= string(start) && fn([]byte(k), v)
	}
	if len(end) == 0 {
		s.cfs[cf].Reverse(visit)
		return
	}
	s.cfs[cf].Descend(string(end), visit)
}

// client sends one command after the other to the store, as a transaction's client would.
type client struct {
	*store
	t require.TestingT
}

func newClient(t *testing.T) *client { return &client{newStore(), t} }

func ts(ms, logical uint64) uint64 { return ms<<18 | logical }

func put(key, val string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(key), Value: []byte(val)}
}

func del(key string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Del, Key: []byte(key)}
}

// prewrite sends a prewrite whose primary is the first key, with a time to live of one second.
func (c *client) prewrite(start uint64, muts ...*kvrpcpb.Mutation) []*kvrpcpb.KeyError {
	return c.prewriteReq(&kvrpcpb.PrewriteRequest{
		Mutations: muts, PrimaryLock: muts[0].Key, StartVersion: start, LockTtl: 1000, MinCommitTs: start + 1,
	})
}

func (c *client) prewriteReq(req *kvrpcpb.PrewriteRequest) []*kvrpcpb.KeyError {
	resp, muts := mvcc.Prewrite(c, req, 0)
	if len(resp.Errors) > 0 {
		require.Empty(c.t, muts, "an error changes nothing")
	}
	c.apply(muts)
	return resp.Errors
}

func (c *client) commit(start, commit uint64, keys ...string) *kvrpcpb.KeyError {
	resp, muts := mvcc.Commit(c, &kvrpcpb.CommitRequest{StartVersion: start, CommitVersion: commit, Keys: raw(keys)})
	if resp.Error != nil {
		require.Empty(c.t, muts, "an error changes nothing")
	}
	c.apply(muts)
	return resp.Error
}

func (c *client) rollback(start uint64, keys ...string) *kvrpcpb.KeyError {
	resp, muts := mvcc.BatchRollback(c, &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: raw(keys)})
	c.apply(muts)
	return resp.Error
}

func (c *client) status(primary string, lockTS, caller, now uint64) *kvrpcpb.CheckTxnStatusResponse {
	resp, muts := mvcc.CheckTxnStatus(c, &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey: []byte(primary), LockTs: lockTS, CallerStartTs: caller, CurrentTs: now, RollbackIfNotExist: true,
	})
	c.apply(muts)
	return resp
}

// write commits one transaction.
func (c *client) write(start, commit uint64, muts ...*kvrpcpb.Mutation) {
	require.Empty(c.t, c.prewrite(start, muts...))
	for _, m := range muts {
		require.Nil(c.t, c.commit(start, commit, string(m.Key)))
	}
}

func (c *client) get(key string, at uint64) *kvrpcpb.GetResponse {
	return mvcc.Get(c, &kvrpcpb.GetRequest{Key: []byte(key), Version: at})
}

// value is a key's value at a ts, "" if there is none.
func (c *client) value(key string, at uint64) string {
	resp := c.get(key, at)
	require.Nil(c.t, resp.Error)
	require.Equal(c.t, resp.NotFound, len(resp.Value) == 0)
	return string(resp.Value)
}

func (c *client) lockCount() int { return c.cfs[mvcc.CFLock].Len() }

func raw(keys []string) [][]byte {
	var out [][]byte
	for _, k := range keys {
		out = append(out, []byte(k))
	}
	return out
}
