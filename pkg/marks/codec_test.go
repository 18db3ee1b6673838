package marks_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/marks"
)

func TestEncode_ComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) marks.Mark {
			return marks.Mark{
				Region: cluster.RegionID(rapid.Uint64().Draw(t, "region")), Version: rapid.Uint64().Draw(t, "version"),
				Term: rapid.Uint64().Draw(t, "term"), Index: rapid.Uint64().Draw(t, "index"),
			}
		}), func(m marks.Mark) cluster.RegionID { return m.Region }).Draw(t, "marks")
		set := marks.NewSet(list)
		body, err := set.Encode()
		require.NoError(t, err)
		got, err := marks.Decode(body)
		require.NoError(t, err)
		require.Equal(t, set.Len(), got.Len())
		for _, m := range list {
			found, ok := got.Find(m.Region)
			require.True(t, ok)
			require.Equal(t, m, found)
		}
		again, err := got.Encode()
		require.NoError(t, err)
		require.Equal(t, body, again, "the same marks give the same bytes")
	})
}

// big is marks like those of a cluster that has lived: ids given out to regions and their peers, versions of splits,
// indexes of all sizes.
func big(n int) []marks.Mark {
	r := rand.New(rand.NewPCG(1, 2))
	list, id := make([]marks.Mark, n), uint64(1000)
	for i := range list {
		id += 4 + r.Uint64N(60)
		version := 1 + r.Uint64N(uint64(n))
		list[i] = marks.Mark{Region: cluster.RegionID(id), Version: version, Term: 6 + r.Uint64N(30), Index: 6 + r.Uint64N(1<<(8+r.Uint64N(20)))}
	}
	return list
}

// A million regions: at most 12 bytes each in storage, and 40 in memory.
func TestEncode_MillionRegions_IsCompact(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	set := marks.NewSet(big(n))
	body, err := set.Encode()
	require.NoError(t, err)
	t.Logf("%d marks take %.2f bytes each in storage, %d in memory", n, float64(len(body))/n, unsafe.Sizeof(marks.Mark{}))
	require.LessOrEqual(t, len(body), 12*n)
	require.LessOrEqual(t, unsafe.Sizeof(marks.Mark{}), uintptr(40))
	got, err := marks.Decode(body)
	require.NoError(t, err)
	require.Equal(t, set, got)
}

func TestDecode_WhatIsNoMarksFile_IsCorrupt(t *testing.T) {
	t.Parallel()
	body, err := marks.NewSet(big(50)).Encode()
	require.NoError(t, err)
	for name, broken := range map[string][]byte{
		"nothing": nil, "another format": []byte("tisnap-marks/2\nabc"), "no gzip": []byte("tisnap-marks/1\nabc"),
		"cut off": body[:len(body)-10], "cut off early": body[:20],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := marks.Decode(broken)
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 1, 50} {
		body, err := marks.NewSet(big(n)).Encode()
		require.NoError(f, err)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		set, err := marks.Decode(body)
		if err != nil {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		again, err := set.Encode()
		require.NoError(t, err)
		got, err := marks.Decode(again)
		require.NoError(t, err)
		require.Equal(t, set.Len(), got.Len())
	})
}
