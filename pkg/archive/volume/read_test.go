package volume_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// flip changes a bit of the volume's saved block number index in its pack.
func (l *lab) flip(t *testing.T, v format.Volume, index int) {
	t.Helper()
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	key := s[index].Pack.Name.Path()
	pack, version, err := l.store.Get(t.Context(), key)
	require.NoError(t, err)
	pack[s[index].Block.Offset] ^= 1
	_, err = l.store.Replace(t.Context(), key, pack, version)
	require.NoError(t, err)
}

func TestStream_IsTheVolumeInItsOrder(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{0, 63, 64, 129} {
		l := newLab(t)
		data := numbered(blocks)
		v, _, err := l.archive(t, image(data), volume.Base{}, nil)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, volume.Stream(t.Context(), l.Repository, v, &out, 3))
		require.True(t, bytes.Equal(data, out.Bytes()), "%d blocks", blocks)
	}
}

// What was written before the damage is the volume's beginning; nothing is written in place of a damaged block.
func TestStream_DamagedBlock_EndsBeforeIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := numbered(129)
	v, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	l.flip(t, v, 128)
	var out bytes.Buffer
	err = volume.Stream(t.Context(), l.Repository, v, &out, 3)
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.ErrorContains(t, err, "blocks 128 are damaged")
	require.LessOrEqual(t, out.Len(), 128*volume.BlockSize)
	require.True(t, bytes.HasPrefix(data, out.Bytes()))
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error)          { return 0, errFull }
func (full) WriteAt([]byte, int64) (int, error) { return 0, errFull }

func TestStreamAndRestore_TargetFails_End(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, _, err := l.archive(t, image(numbered(129)), volume.Base{}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, volume.Stream(t.Context(), l.Repository, v, full{}, 3), errFull)
	require.ErrorIs(t, volume.Restore(t.Context(), l.Repository, v, &volume.Image{To: full{}}, 3), errFull)
}

// memory is a device of this size.
type memory []byte

func (m memory) WriteAt(p []byte, at int64) (int, error) { return copy(m[at:], p), nil }

// A device keeps nothing of what it had, unless it is known to be zeros.
func TestRestore_DirtyImage_IsCleared(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, _, err := l.archive(t, image(data), volume.Base{}, func(index int64) bool { return index == 6 })
	require.NoError(t, err)
	copy(data[6*volume.BlockSize:], make([]byte, volume.BlockSize))
	device := make(memory, len(data))
	_, _ = rand.NewChaCha8([32]byte{}).Read(device)
	require.NoError(t, volume.Restore(t.Context(), l.Repository, v, &volume.Image{To: device, Dirty: true}, 3))
	require.True(t, bytes.Equal(data, device))
}

// All damaged blocks of a segment are named, and the others are written.
func TestRestore_DamagedBlocks_AreNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	l.flip(t, v, 4)
	l.flip(t, v, 30)
	device := make(memory, len(data))
	err = volume.Restore(t.Context(), l.Repository, v, &volume.Image{To: device}, 3)
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.ErrorContains(t, err, "blocks 4, 30 are damaged")
	for _, index := range []int{4, 30} {
		copy(data[index*volume.BlockSize:], make([]byte, volume.BlockSize))
	}
	require.True(t, bytes.Equal(data, device))
}

func TestCompare_AnyDifference_IsSeen(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	same, err := volume.Compare(t.Context(), l.Repository, v, bytes.NewReader(data))
	require.NoError(t, err)
	require.True(t, same)
	for _, at := range []int{0, 3 * volume.BlockSize, len(data) - 1} { // 3 is a block of zeros
		other := slices.Clone(data)
		other[at] ^= 1
		same, err = volume.Compare(t.Context(), l.Repository, v, bytes.NewReader(other))
		require.NoError(t, err)
		require.False(t, same, "byte %d", at)
	}
	_, err = volume.Compare(t.Context(), l.Repository, v, bytes.NewReader(data[:len(data)-1]))
	require.Error(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = volume.Compare(ended, l.Repository, v, bytes.NewReader(data))
	require.ErrorIs(t, err, context.Canceled)
}

func TestWriteDevice_KeepsNothingUnlessZeroed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	before := make([]byte, len(data)+100)
	_, _ = rand.NewChaCha8([32]byte{}).Read(before)
	device := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(device, before, 0o600))
	var wrote atomic.Int64
	add := func(n int64) { wrote.Add(n) }
	require.NoError(t, volume.WriteDevice(t.Context(), l.Repository, v, device, false, 3, add))
	is, err := os.ReadFile(device)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, is[:len(data)]))
	require.Equal(t, before[len(data):], is[len(data):])
	require.EqualValues(t, len(data), wrote.Load())

	require.NoError(t, os.WriteFile(device, make([]byte, len(data)), 0o600))
	wrote.Store(0)
	require.NoError(t, volume.WriteDevice(t.Context(), l.Repository, v, device, true, 3, add))
	is, err = os.ReadFile(device)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, is))
	require.Less(t, wrote.Load(), int64(len(data)), "zeros are not written")

	require.NoError(t, os.Truncate(device, v.Size-1))
	err = volume.WriteDevice(t.Context(), l.Repository, v, device, false, 3, add)
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

func TestWriteFile_DamagedBlock_LeavesNoFile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, _, err := l.archive(t, image(content(1, 40)), volume.Base{}, nil)
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".a.1.partial"), nil, 0o600), "of a process that was killed")
	require.NoError(t, volume.WriteFile(t.Context(), l.Repository, v, filepath.Join(folder, "a"), 3, func(int64) {}))
	require.NoFileExists(t, filepath.Join(folder, ".a.1.partial"))
	require.NoError(t, os.Remove(filepath.Join(folder, "a")))
	l.flip(t, v, 4)
	err = volume.WriteFile(t.Context(), l.Repository, v, filepath.Join(folder, "a"), 3, func(int64) {})
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}
