package mvcc_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// collect carries out a whole collection, in pieces of so many keys.
func (c *client) collect(safePoint uint64, limit int) {
	var cursor []byte
	for {
		muts, next := mvcc.CollectGarbage(c, cursor, safePoint, limit)
		c.apply(muts)
		if next == nil {
			return
		}
		cursor = next
	}
}

// Reads at the safe point and above see the same before and after, and what cannot be read any more is gone.
func TestCollectGarbage_ReadsFromTheSafePointOnAreUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &client{newStore(), t}
		keys := []string{"a", "b", "c", "d"}
		last := uint64(rapid.IntRange(1, 30).Draw(t, "transactions"))
		for i := uint64(1); i <= last; i++ {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			value := fmt.Sprint("v", i)
			if rapid.Bool().Draw(t, "long") {
				value = fmt.Sprintf("%0100d", i)
			}
			m := put(key, value)
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				m = del(key)
			}
			require.Empty(t, c.prewrite(ts(i*10, 0), m))
			if rapid.IntRange(0, 4).Draw(t, "roll back") == 0 {
				require.Nil(t, c.rollback(ts(i*10, 0), key))
				continue
			}
			require.Nil(t, c.commit(ts(i*10, 0), ts(i*10+5, 0), key))
		}
		safe := ts(uint64(rapid.IntRange(0, int(last)*10+10).Draw(t, "safe point")), 0)
		reads := func() (seen []string) {
			for at := safe; at <= ts(last*10+20, 0); at += ts(5, 0) {
				for _, key := range keys {
					seen = append(seen, fmt.Sprint(at, key, c.value(key, at)))
				}
			}
			return seen
		}
		before := reads()
		c.collect(safe, rapid.IntRange(1, 3).Draw(t, "limit"))
		require.Equal(t, before, reads())
		end := ts(last*10+20, 0)
		c.collect(end, len(keys))
		values := 0
		for _, key := range keys {
			if c.value(key, end) != "" {
				values++
			}
		}
		require.Equal(t, values, c.cfs[mvcc.CFWrite].Len(), "one record of each key that has a value, and none besides")
		require.LessOrEqual(t, c.cfs[mvcc.CFDefault].Len(), values, "long values go with their records")
	})
}
