package sweep

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
		c := NewCoverage()
		for range rapid.IntRange(0, 12).Draw(t, "ranges") {
			from := rapid.IntRange(0, keySpace-1).Draw(t, "from")
			to := rapid.IntRange(1, keySpace).Draw(t, "to")
			c.Add(cluster.KeyRange{Start: modelKey(from), End: modelKey(to)})
			for i := from; i < to; i++ {
				model[i] = true
			}
		}
		for from := range keySpace {
			all := true
			for to := from + 1; to <= keySpace; to++ {
				all = all && model[to-1]
				r := cluster.KeyRange{Start: modelKey(from), End: modelKey(to)}
				require.Equal(t, all, c.Contains(r), "%s in %v", r, c.List())
			}
		}
		want := runs(model, true)
		require.Equal(t, want, c.List(), "the fewest ranges, in order")
		require.Equal(t, runs(model, false), c.Missing())
		require.Equal(t, len(c.Missing()) == 0, c.Whole())
		require.Equal(t, want, NewCoverage(c.List()...).List(), "what is written down is read back")
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
	c := NewCoverage(cluster.KeyRange{End: []byte("m")}, cluster.KeyRange{Start: []byte("m"), End: []byte{0xff, 0xff, 0xff}})
	require.False(t, c.Whole(), "keys after FFFFFF are missing")
	require.Equal(t, []cluster.KeyRange{{Start: []byte{0xff, 0xff, 0xff}}}, c.Missing())
	c.Add(cluster.KeyRange{Start: []byte{0xff, 0xff, 0xff}})
	require.True(t, c.Whole())
	require.Empty(t, c.Missing())
	require.Len(t, c.List(), 1)
}

func TestCoverage_EmptySet_MissesEverything(t *testing.T) {
	t.Parallel()
	require.False(t, NewCoverage().Whole())
	require.Equal(t, []cluster.KeyRange{{}}, NewCoverage().Missing())
}

func BenchmarkCoverage_RandomOrder(b *testing.B) {
	const regions = 100_000
	ranges := make([]cluster.KeyRange, regions)
	for i := range ranges {
		ranges[i] = cluster.KeyRange{Start: benchKey(i), End: benchKey(i + 1)}
	}
	for b.Loop() {
		c := NewCoverage()
		for i := range ranges {
			c.Add(ranges[i*7919%regions])
		}
		if len(c.List()) != 1 {
			b.Fatal("not one range")
		}
	}
}

func benchKey(i int) []byte { return []byte{byte(i >> 16), byte(i >> 8), byte(i)} }
