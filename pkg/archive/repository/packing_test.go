package repository_test

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// packed archives the blocks by two packers, one half each, and returns their places and the packs that were stored.
func (l *lab) packed(t *testing.T, all [][]byte) (s format.Segment, packs []format.Contents, err error) {
	t.Helper()
	o := repository.PackOptions{
		Source: format.Source{Archive: "nightly"}, Names: format.NewPackNames(), Level: codec.Auto, Packers: 2, Way: repository.Way{Uploads: 2},
	}
	packing := l.Pack(t.Context(), o)
	s = make(format.Segment, len(all))
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for half := range 2 {
		wg.Go(func() { errs[half] = packHalf(packing, s, all, half*len(all)/2, (half+1)*len(all)/2) })
	}
	wg.Wait()
	err = packing.Wait()
	if err == nil {
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		begun, below := packing.Begun()
		require.Equal(t, begun, below, "all are stored")
	}
	require.NoError(t, l.FindPacks(t.Context(), o.Names, 0, 4, func(c format.Contents) error {
		packs = append(packs, c)
		return nil
	}))
	return s, packs, err
}

func packHalf(packing *repository.Packing, s format.Segment, all [][]byte, from, to int) error {
	p, err := packing.Packer()
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if s[i], err = p.Add(format.Origin{Index: uint32(i)}, sha256.Sum256(all[i]), all[i]); err != nil {
			return err
		}
	}
	return p.Flush()
}

func TestPacking_TwoPackers_EverythingIsStoredAndReadBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := blocks(37)
	s, packs, err := l.packed(t, all)
	require.NoError(t, err)
	require.Len(t, packs, 10, "each half fills four packs of 2 MiB, and a part of a fifth")
	for _, pack := range packs {
		require.Equal(t, "nightly", pack.Source.Archive)
		for _, b := range pack.Blocks {
			require.Equal(t, format.Place{State: format.Saved, Pack: pack.Ref, Block: b.Block}, s[b.Index])
		}
	}
	got, err := l.read(t, s)
	require.NoError(t, err)
	for i, raw := range all {
		require.True(t, bytes.Equal(raw, got[i]), "block %d", i)
	}
}

// A failed upload ends the packers, also one that waits for a buffer.
func TestPacking_UploadFails_PackersEnd(t *testing.T) {
	t.Parallel()
	plan := &fault.Plan{}
	l := newLabWith(t, plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Code: "AccessDenied", Times: -1}))
	_, packs, err := l.packed(t, blocks(60))
	require.ErrorContains(t, err, "AccessDenied")
	require.Empty(t, packs)
}

// A run that was killed left gaps: the packs behind them are found all the same.
func TestFindPacks_AreMissing_TheOthersAreFound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	names := format.NewPackNames()
	packing := l.Pack(t.Context(), repository.PackOptions{Names: names, Packers: 1, Way: repository.Way{Uploads: 1}})
	packer, err := packing.Packer()
	require.NoError(t, err)
	for i, raw := range blocks(6) {
		_, err := packer.Add(format.Origin{Index: uint32(i)}, sha256.Sum256(raw), raw)
		require.NoError(t, err)
		require.NoError(t, packer.Flush())
	}
	require.NoError(t, packing.Wait())
	for _, gone := range []int{0, 1, 3} {
		require.NoError(t, l.store.Delete(t.Context(), names.At(gone).Path()))
	}
	find := func(from int) (indexes []uint32) {
		require.NoError(t, l.FindPacks(t.Context(), names, from, 3, func(c format.Contents) error {
			indexes = append(indexes, c.Blocks[0].Index)
			return nil
		}))
		return indexes
	}
	require.Equal(t, []uint32{2, 4, 5}, find(0))
	require.Equal(t, []uint32{5}, find(5))
}

// away is a storage that is so far away.
type away struct {
	objstore.Store
	latency time.Duration
}

func (a *away) Latency() time.Duration { return a.latency }

// The further the storage is, the more packs are on their way, in the same memory.
func TestWay_FurtherAway_MoreAndSmallerPacks(t *testing.T) {
	t.Parallel()
	const packers = 2
	store := &away{Store: objstoretest.NewMemory(nil)}
	r, _, err := archivetest.New(t.Context(), store, repository.DefaultPackSize)
	require.NoError(t, err)
	for latency, uploads := range map[time.Duration]int{
		0: 1, time.Millisecond: 1, 15 * time.Millisecond: 4, 45 * time.Millisecond: 10, 90 * time.Millisecond: 10,
	} {
		store.latency = latency
		way := r.Way()
		require.Equal(t, uploads, way.Uploads, latency)
		require.EqualValues(t, 96<<20, way.Size*int64(packers+uploads), latency)
	}
}

// Packs are closed at the size of the way, but are never larger than the repository's.
func TestPack_SizeOfTheWay_IsAtMostTheRepositorys(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int{0: 3, 1 << 20: 5, 64 << 20: 3} {
		l := newLab(t) // of 2 MiB
		packing := l.Pack(t.Context(), repository.PackOptions{
			Names: format.NewPackNames(), Packers: 1, Way: repository.Way{Uploads: 1, Size: size},
		})
		packer, err := packing.Packer()
		require.NoError(t, err)
		for i, raw := range blocks(10) {
			_, err := packer.Add(format.Origin{Index: uint32(i)}, sha256.Sum256(raw), raw)
			require.NoError(t, err)
		}
		require.NoError(t, packer.Flush())
		require.NoError(t, packing.Wait())
		begun, _ := packing.Begun()
		require.Equal(t, want, begun, size)
	}
}

// Packs of all first bytes are found by their names, and nothing else is.
func TestPacks_AreFoundByName(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sizes := map[format.PackName]int{}
	for first := range 256 {
		for n := range 3 {
			name := format.PackName{byte(first), byte(n * 100)}
			sizes[name] = first + n + 1
			require.NoError(t, l.PutPack(t.Context(), name, make([]byte, sizes[name])))
		}
	}
	_, err := l.store.Create(t.Context(), format.PackPrefix+"07/x", nil)
	require.NoError(t, err)
	packs, err := l.Packs(t.Context())
	require.NoError(t, err)
	for name, want := range sizes {
		size, exists := packs.Of(name)
		require.True(t, exists)
		require.EqualValues(t, want, size)
	}
	_, exists := packs.Of(format.PackName{7, 1})
	require.False(t, exists)
	require.ElementsMatch(t, slices.Collect(maps.Keys(sizes)), slices.Collect(packs.Names()))
}
