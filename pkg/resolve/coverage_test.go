package resolve //nolint:testpackage // the type is not exported

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// keySpace is how many keys the model knows: the empty one, and one for each letter after it.
const keySpace = 12

// modelKey is key number i; number keySpace is the end of the key space.
func modelKey(i int) []byte {
	if i == 0 || i == keySpace {
		return nil
	}
	return []byte{byte('a' + i)}
}

// TestCoverage_AnyRanges_AgreesWithSetOfKeys compares with the slow truth: one bool for each key.
func TestCoverage_AnyRanges_AgreesWithSetOfKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var model [keySpace]bool
		c := newCoverage()
		for range rapid.IntRange(0, 12).Draw(t, "ranges") {
			from := rapid.IntRange(0, keySpace-1).Draw(t, "from")
			to := rapid.IntRange(1, keySpace).Draw(t, "to")
			c.add(cluster.KeyRange{Start: modelKey(from), End: modelKey(to)})
			for i := from; i < to; i++ {
				model[i] = true
			}
		}
		for from := range keySpace {
			all := true
			for to := from + 1; to <= keySpace; to++ {
				all = all && model[to-1]
				r := cluster.KeyRange{Start: modelKey(from), End: modelKey(to)}
				require.Equal(t, all, c.contains(r), "%s in %v", r, c.list())
			}
		}
		want := runs(model, true)
		require.Equal(t, want, c.list(), "the fewest ranges, in order")
		require.Equal(t, runs(model, false), c.missing())
		require.Equal(t, len(c.missing()) == 0, c.whole())
		require.Equal(t, want, newCoverage(c.list()...).list(), "what is written down is read back")
	})
}

// runs lists the runs of keys whose bool is value.
func runs(model [keySpace]bool, value bool) []cluster.KeyRange {
	out := []cluster.KeyRange{}
	for i := 0; i < keySpace; i++ {
		if model[i] != value {
			continue
		}
		from := i
		for i < keySpace && model[i] == value {
			i++
		}
		out = append(out, cluster.KeyRange{Start: modelKey(from), End: modelKey(i)})
	}
	if len(out) == 0 && !value {
		return nil
	}
	return out
}

func TestCoverage_LastRegionOpenEnded_IsWholeOnlyWithIt(t *testing.T) {
	t.Parallel()
	c := newCoverage(cluster.KeyRange{End: []byte("m")}, cluster.KeyRange{Start: []byte("m"), End: []byte{0xff, 0xff, 0xff}})
	require.False(t, c.whole(), "keys after FFFFFF are missing")
	require.Equal(t, []cluster.KeyRange{{Start: []byte{0xff, 0xff, 0xff}}}, c.missing())
	c.add(cluster.KeyRange{Start: []byte{0xff, 0xff, 0xff}})
	require.True(t, c.whole())
	require.Empty(t, c.missing())
	require.Len(t, c.list(), 1)
}

func TestCoverage_EmptySet_MissesEverything(t *testing.T) {
	t.Parallel()
	require.False(t, newCoverage().whole())
	require.Equal(t, []cluster.KeyRange{{}}, newCoverage().missing())
}

func BenchmarkCoverage_RandomOrder(b *testing.B) {
	const regions = 100_000
	ranges := make([]cluster.KeyRange, regions)
	for i := range ranges {
		ranges[i] = cluster.KeyRange{Start: benchKey(i), End: benchKey(i + 1)}
	}
	for b.Loop() {
		c := newCoverage()
		for i := range ranges {
			c.add(ranges[i*7919%regions])
		}
		if len(c.list()) != 1 {
			b.Fatal("not one range")
		}
	}
}

func benchKey(i int) []byte { return []byte{byte(i >> 16), byte(i >> 8), byte(i)} }
