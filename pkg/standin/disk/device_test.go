package disk_test

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

const mib = 1 << 20

func TestDevice_ReadsWhatWasWrittenAndZerosElsewhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, model := disk.New(mib), make([]byte, mib)
		for range rapid.IntRange(1, 12).Draw(t, "writes") {
			p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(0, 200_000).Draw(t, "length"))
			off := rapid.IntRange(0, mib-len(p)).Draw(t, "offset")
			_, err := d.WriteAt(p, int64(off))
			require.NoError(t, err)
			copy(model[off:], p)
		}
		got := make([]byte, mib)
		_, err := d.ReadAt(got, 0)
		require.NoError(t, err)
		require.True(t, bytes.Equal(model, got))
	})
}

func TestDevice_OutsideItsSize_IsRefused(t *testing.T) {
	t.Parallel()
	d := disk.New(100)
	_, err := d.WriteAt(make([]byte, 2), 99)
	require.ErrorContains(t, err, "full")
	_, err = d.ReadAt(make([]byte, 2), 99)
	require.Error(t, err)
	_, err = d.WriteAt([]byte{1}, -1)
	require.Error(t, err)
}

func TestDevice_Detached_FailsUntilAttachedAgain(t *testing.T) {
	t.Parallel()
	d := disk.New(mib)
	d.Detach()
	_, err := d.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, disk.ErrDetached)
	_, err = d.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, disk.ErrDetached)
	d.Attach()
	_, err = d.WriteAt([]byte{1}, 0)
	require.NoError(t, err)
}

func TestCut_LaterWrites_ChangeNeitherImageNorCopies(t *testing.T) {
	t.Parallel()
	d := disk.New(mib)
	_, err := d.WriteAt([]byte("before"), 0)
	require.NoError(t, err)
	img := disk.Cut(d)[0]
	copied, err := disk.FromImage(img, 2*mib)
	require.NoError(t, err)
	_, err = d.WriteAt([]byte("after!"), 0)
	require.NoError(t, err)
	_, err = copied.WriteAt([]byte("copied"), 100)
	require.NoError(t, err)
	got := make([]byte, 6)
	for _, r := range []interface {
		ReadAt(p []byte, off int64) (int, error)
	}{img, copied} {
		_, err = r.ReadAt(got, 0)
		require.NoError(t, err)
		assert.Equal(t, "before", string(got))
	}
	_, err = disk.FromImage(img, mib/2)
	require.Error(t, err, "a volume is never smaller than its snapshot")
}

func TestCut_CountsWhatChangedSinceTheLastOne(t *testing.T) {
	t.Parallel()
	d := disk.New(mib)
	_, err := d.WriteAt(make([]byte, 3*disk.PageSize), 0)
	require.NoError(t, err)
	assert.EqualValues(t, 3*disk.PageSize, disk.Cut(d)[0].DirtyBytes)
	_, err = d.WriteAt([]byte{1}, 0)
	require.NoError(t, err)
	img := disk.Cut(d)[0]
	assert.EqualValues(t, disk.PageSize, img.DirtyBytes)
	assert.EqualValues(t, 3*disk.PageSize, img.UsedBytes)
	d.Discard(0, 2*disk.PageSize)
	assert.EqualValues(t, disk.PageSize, d.Used())
}

// A writer puts each number on the first device and then on the second: in any cut the second is at the
// same number or one behind, never ahead.
func TestCut_SeveralDevices_AreCutAtOneInstant(t *testing.T) {
	t.Parallel()
	a, b := disk.New(mib), disk.New(mib)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		p := make([]byte, 8)
		for n := uint64(1); !stop.Load(); n++ {
			binary.BigEndian.PutUint64(p, n)
			_, errA := a.WriteAt(p, 0)
			_, errB := b.WriteAt(p, 0)
			if errA != nil || errB != nil {
				return
			}
		}
	})
	read := func(i *disk.Image) uint64 {
		p := make([]byte, 8)
		_, err := i.ReadAt(p, 0)
		assert.NoError(t, err)
		return binary.BigEndian.Uint64(p)
	}
	for range 300 {
		// Both orders: two cuts at the same time must not wait for each other for ever.
		wg.Go(func() { disk.Cut(b, a) })
		images := disk.Cut(a, b)
		first, second := read(images[0]), read(images[1])
		assert.True(t, first == second || first == second+1, "%d and %d", first, second)
	}
	stop.Store(true)
	wg.Wait()
}
