package cluster_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func keys(start, end string) cluster.KeyRange {
	return cluster.KeyRange{Start: []byte(start), End: []byte(end)}
}

func TestTile_Faults_AreNamed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		ranges []cluster.KeyRange
		want   []string // none: it tiles
	}{
		{"one", []cluster.KeyRange{keys("", "")}, nil},
		{"out of order", []cluster.KeyRange{keys("b", ""), keys("", "a"), keys("a", "b")}, nil},
		{"none", nil, []string{"no range at all"}},
		{"hole at the start", []cluster.KeyRange{keys("a", "")}, []string{"1 faults", "hole [-inf, 61)"}},
		{"hole in the middle", []cluster.KeyRange{keys("", "a"), keys("b", "")}, []string{"1 faults", "hole [61, 62)"}},
		{"hole at the end", []cluster.KeyRange{keys("", "a")}, []string{"1 faults", "hole [61, +inf)"}},
		{"overlap", []cluster.KeyRange{keys("", "b"), keys("a", "")}, []string{"1 faults", "overlap [61, 62)"}},
		{"whole twice", []cluster.KeyRange{keys("", ""), keys("", "")}, []string{"1 faults", "overlap [-inf, +inf)"}},
		{"contained", []cluster.KeyRange{keys("", ""), keys("a", "b")}, []string{"1 faults", "overlap [61, 62)"}},
		{
			"long range that covers several", []cluster.KeyRange{keys("", "d"), keys("a", "b"), keys("b", "c"), keys("d", "")},
			[]string{"2 faults", "overlap [61, 62)", "overlap [62, 63)"},
		},
		// With the range before it alone, [b, c) and [c, +inf) look like neighbours.
		{
			"open range that covers a tail", []cluster.KeyRange{keys("", ""), keys("b", "c"), keys("c", "")},
			[]string{"2 faults", "overlap [62, 63)", "overlap [63, +inf)"},
		},
		// The hole before d is none: the first range reaches to d.
		{"no false hole", []cluster.KeyRange{keys("", "d"), keys("a", "b"), keys("d", "")}, []string{"1 faults: [overlap [61, 62)]"}},
		{"empty range", []cluster.KeyRange{keys("", "b"), keys("b", "b"), keys("b", "")}, []string{"1 faults: [empty range [62, 62)]"}},
		{"ends before it starts", []cluster.KeyRange{keys("", "b"), keys("c", "a"), keys("b", "")}, []string{"1 faults: [empty range [63, 61)]"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := cluster.Tile(c.ranges, 5)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestTile_ManyFaults_AreCountedAndLimited(t *testing.T) {
	t.Parallel()
	var ranges []cluster.KeyRange
	for i := range 10 {
		ranges = append(ranges, keys(fmt.Sprint(i), fmt.Sprint(i)+"5"))
	}
	err := cluster.Tile(ranges, 2)
	require.EqualError(t, err, "cover key space: 11 faults: [hole [-inf, 30) hole [3035, 31)]")
}

// covered is the slow way: at each boundary, and right behind it, exactly one range holds the key.
func covered(ranges []cluster.KeyRange) bool {
	points := [][]byte{{}}
	for _, r := range ranges {
		points = append(points, r.Start, r.End, append(slices.Clone(r.Start), 0), append(slices.Clone(r.End), 0))
		if len(r.End) > 0 && string(r.Start) >= string(r.End) {
			return false
		}
	}
	for _, p := range points {
		n := 0
		for _, r := range ranges {
			if r.Contains(p) {
				n++
			}
		}
		if n != 1 {
			return false
		}
	}
	return true
}

func TestTile_AnyRanges_AgreesWithCheckOfEachKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfNDistinct(rapid.StringMatching("[a-d]{1,2}"), 0, 6, rapid.ID[string]).Draw(t, "cuts")
		slices.Sort(cuts)
		bounds := append(append([]string{""}, cuts...), "")
		var ranges []cluster.KeyRange
		for i := range len(bounds) - 1 {
			if rapid.IntRange(0, 12).Draw(t, "left out") > 0 {
				ranges = append(ranges, keys(bounds[i], bounds[i+1]))
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "extra") == 0 {
			ranges = append(ranges, keys(rapid.SampledFrom(bounds).Draw(t, "start"), rapid.SampledFrom(bounds).Draw(t, "end")))
		}
		ranges = rapid.Permutation(ranges).Draw(t, "order")
		want := covered(ranges)
		require.Equal(t, want, cluster.Tile(ranges, 3) == nil)
	})
}

func FuzzTile(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), []byte("c"), []byte("d"))
	f.Add([]byte(""), []byte("d"), []byte("a"), []byte("b"))
	f.Add([]byte(""), []byte("b"), []byte("b"), []byte(""))
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		ranges := []cluster.KeyRange{{Start: a, End: b}, {Start: c, End: d}, {Start: b, End: c}}
		for n := range ranges {
			some := slices.Clone(ranges[:n+1])
			want := covered(some)
			if got := cluster.Tile(some, 3) == nil; got != want {
				t.Fatalf("%v: Tile: %v, key by key: %v", some, got, want)
			}
		}
	})
}

func TestKeyRange_ContainsAndString(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	r := keys("b", "d")
	for key, want := range map[string]bool{"": false, "a": false, "b": true, "c": true, "d": false, "e": false} {
		t.Run(key, func(t *testing.T) {
			require.Equal(t, want, r.Contains([]byte(key)), "key %q", key)
		})
	}
	require.True(t, cluster.KeyRange{}.Contains(nil))
	require.True(t, cluster.KeyRange{}.Contains([]byte{0xff, 0xff}))
	require.Equal(t, "[62, 64)", r.String())
	require.Equal(t, "[-inf, +inf)", cluster.KeyRange{}.String())
}

func BenchmarkTile(b *testing.B) {
	const n = 1_000_000
	sorted := make([]cluster.KeyRange, n)
	for i := range sorted {
		sorted[i] = cluster.KeyRange{Start: binary.BigEndian.AppendUint32(nil, uint32(i)), End: binary.BigEndian.AppendUint32(nil, uint32(i+1))}
	}
	sorted[0].Start, sorted[n-1].End = nil, nil
	mixed := slices.Clone(sorted)
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(n, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	for name, ranges := range map[string][]cluster.KeyRange{"sorted": sorted, "mixed": mixed} {
		b.Run(name, func(b *testing.B) {
			scratch := make([]cluster.KeyRange, n)
			b.ReportAllocs()
			for b.Loop() {
				copy(scratch, ranges)
				if err := cluster.Tile(scratch, 5); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
