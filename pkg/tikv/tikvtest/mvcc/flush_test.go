package mvcc_test

import (
	"math"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// flush sends one flush of a pipelined transaction whose primary is "a".
func (c *client) flush(start, generation uint64, mutations ...*kvrpcpb.Mutation) *kvrpcpb.FlushResponse {
	resp, muts := mvcc.Flush(c, &kvrpcpb.FlushRequest{
		Mutations: mutations, PrimaryKey: []byte("a"), StartTs: start, MinCommitTs: start + 1, Generation: generation, LockTtl: 1000,
	})
	c.apply(muts)
	return resp
}

// buffered is what the transaction reads of its own flushes.
func (c *client) buffered(start uint64, keys ...string) map[string]string {
	got := map[string]string{}
	for _, pair := range mvcc.BufferBatchGet(c, &kvrpcpb.BufferBatchGetRequest{Keys: raw(keys), Version: start}).Pairs {
		got[string(pair.Key)] = string(pair.Value)
	}
	return got
}

func TestFlush_LaterFlushReplacesAnEarlierOne(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for name, first := range map[string]string{"a short value": "1", "a long value": long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			require.Empty(t, c.flush(100, 1, put("a", first), put("b", "1")).Errors)
			require.Empty(t, c.flush(100, 2, put("a", "2")).Errors)
			require.Empty(t, c.flush(100, 1, put("a", first)).Errors, "the answer was lost, and the first comes again")
			require.Equal(t, map[string]string{"a": "2", "b": "1"}, c.buffered(100, "a", "b", "c"))
			require.Empty(t, c.buffered(101, "a", "b"), "another transaction has flushed nothing")
			require.Nil(t, c.commit(100, 200, "a", "b"))
			require.Equal(t, "2", c.value("a", math.MaxUint64))
			require.Equal(t, "1", c.value("b", 200))
			require.Zero(t, c.lockCount())
		})
	}
}

func TestFlush_NewerVersionOrForeignLock_Refused(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.flush(100, 1, put("a", "1")).Errors)
	require.NotNil(t, c.flush(110, 1, put("a", "2")).Errors[0].Locked)
	require.Nil(t, c.commit(100, 200, "a"))
	require.NotNil(t, c.flush(150, 1, put("a", "3")).Errors[0].Conflict)
}

func TestMinLockTS_OfAPipelinedTransaction_IsTheCommitTSItWillHave(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Empty(t, c.flush(100, 1, put("a", "1")).Errors)
	least, ok := mvcc.MinLockTS(c, mvcc.Range{}, func(start uint64) uint64 { return start + 7 })
	require.True(t, ok)
	require.Equal(t, uint64(107), least)
	require.Empty(t, c.prewrite(103, put("b", "1")))
	least, _ = mvcc.MinLockTS(c, mvcc.Range{}, func(start uint64) uint64 { return start + 7 })
	require.Equal(t, uint64(103), least, "the lock of another transaction holds back by its start")
}
