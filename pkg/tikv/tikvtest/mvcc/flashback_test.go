package mvcc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// flashback runs all batches and returns how many mutations they made.
func (c *client) flashback(keys mvcc.Range, version, start, commit uint64, limit int) (int, error) {
	var cursor []byte
	total := 0
	for {
		muts, next, done, err := mvcc.FlashbackBatch(c, keys, cursor, version, start, commit, limit)
		if err != nil {
			require.Empty(c.t, muts)
			return total, err
		}
		c.apply(muts)
		total += len(muts)
		if done {
			require.Nil(c.t, next)
			return total, nil
		}
		require.Greater(c.t, string(next), string(cursor), "each batch advances")
		cursor = next
	}
}

func TestFlashback_RestoresVersionAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	long := strings.Repeat("o", 100)
	c.write(ts(10, 0), ts(11, 0), put("kept", "1"), put("changed", "old"), put("dropped", long), put("gone", "1"))
	c.write(ts(12, 0), ts(13, 0), del("gone"))
	version := ts(15, 0)
	c.write(ts(20, 0), ts(21, 0), put("changed", strings.Repeat("n", 100)), del("dropped"), put("created", "1"), put("gone", "2"))
	require.Nil(t, c.rollback(ts(22, 0), "kept"))
	require.Empty(t, c.prewrite(ts(23, 0), put("kept", strings.Repeat("l", 100)), put("locked", "1")))
	before := c.cfs[mvcc.CFDefault].Len()

	_, err := c.flashback(mvcc.Range{}, version, ts(30, 0), ts(31, 0), 2)
	require.NoError(t, err)
	require.Zero(t, c.lockCount())
	require.Equal(t, before, c.cfs[mvcc.CFDefault].Len(), "the lock's value is gone, one long value is written")
	now := ts(31, 0)
	require.Equal(t, "1", c.value("kept", now))
	require.Equal(t, "old", c.value("changed", now))
	require.Equal(t, long, c.value("dropped", now))
	for _, k := range []string{"created", "gone", "locked"} {
		require.True(t, c.get(k, now).NotFound, k)
	}
	require.Equal(t, "1", c.value("created", ts(30, 9)), "history stays below the commit ts")

	n, err := c.flashback(mvcc.Range{}, version, ts(30, 0), ts(31, 0), 2)
	require.NoError(t, err)
	require.Zero(t, n, "repeating it changes nothing")
	require.Empty(t, c.prewrite(ts(40, 0), put("kept", "2")), "and writes work again")
}

func TestFlashback_OnlyTheRange_IsChanged(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(20, 0), ts(21, 0), put("a", "1"), put("b", "1"), put("c", "1"))
	keys := mvcc.Range{Start: mvcc.EncodeKey([]byte("b")), End: mvcc.EncodeKey([]byte("c"))}
	_, err := c.flashback(keys, ts(10, 0), ts(30, 0), ts(31, 0), 1)
	require.NoError(t, err)
	require.Equal(t, "1", c.value("a", ts(40, 0)))
	require.Empty(t, c.value("b", ts(40, 0)))
	require.Equal(t, "1", c.value("c", ts(40, 0)))
}

func TestFlashback_CommitTSBelowData_FailsTheAssertion(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.write(ts(20, 0), ts(50, 0), put("a", "1"))
	_, err := c.flashback(mvcc.Range{}, ts(10, 0), ts(30, 0), ts(31, 0), 10)
	require.ErrorIs(t, err, mvcc.ErrAssertion)
	require.EqualError(t, err, "assertion failed: latest_commit_ts <= flashback_commit_ts")
}

func TestFlashback_ManyUntouchedKeys_AreCutIntoBatches(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var muts []*kvrpcpb.Mutation
	for i := range 1000 {
		muts = append(muts, put(fmt.Sprintf("k%04d", i), "1"))
	}
	c.write(ts(10, 0), ts(11, 0), muts...)
	require.Empty(t, c.prewrite(ts(12, 0), put("k0999", "2")))
	changed, next, done, err := mvcc.FlashbackBatch(c, mvcc.Range{}, nil, ts(20, 0), ts(30, 0), ts(31, 0), 2)
	require.NoError(t, err)
	require.False(t, done, "one call is bounded even if there is nothing to do")
	require.NotEmpty(t, next)
	require.Empty(t, changed)
	n, err := c.flashback(mvcc.Range{}, ts(20, 0), ts(30, 0), ts(31, 0), 2)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the lock")
}
