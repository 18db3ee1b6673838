package repository_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// packed archives the blocks by two packers, one half each, and returns their places and the packs that were stored.
func (l *lab) packed(t *testing.T, all [][]byte) (s format.Segment, packs map[format.PackRef]int64, err error) {
	t.Helper()
	packs = map[format.PackRef]int64{}
	var mu sync.Mutex
	packing := l.Pack(t.Context(), format.Source{Archive: "nightly"}, codec.Auto, 2, 2,
		func(_ context.Context, ref format.PackRef, size int64) error {
			mu.Lock()
			defer mu.Unlock()
			packs[ref] = size
			return nil
		})
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
	}
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
	for ref, size := range packs {
		body, _, err := l.store.Get(t.Context(), ref.Name.Path())
		require.NoError(t, err)
		require.EqualValues(t, size, len(body))
		contents, err := format.ReadPack(bytes.NewReader(body), size, l.Keys(), ref.Name)
		require.NoError(t, err)
		require.Equal(t, "nightly", contents.Source.Archive)
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
