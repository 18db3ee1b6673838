package volume_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// disk is a device that loses power after so many writes: of what was not synced it keeps only the blocks that lucky
// names.
type disk struct {
	mu              sync.Mutex
	durable, cached map[int64]string // by block
	left            int              // writes until the power is lost; below 0 is never
	lucky           func(index int64) bool
	writes          int
}

var errPower = errors.New("power is lost")

func newDisk() *disk {
	return &disk{durable: map[int64]string{}, cached: map[int64]string{}, left: -1}
}

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(p)
	copy(p, d.cached[at/volume.BlockSize])
	return len(p), nil
}

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return 0, errPower
	}
	d.left--
	d.writes++
	d.cached[at/volume.BlockSize] = string(p)
	return len(p), nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return errPower
	}
	d.durable = maps.Clone(d.cached)
	return nil
}

// restart is the power's return.
func (d *disk) restart() {
	for index, block := range d.cached {
		if d.lucky(index) {
			d.durable[index] = block
		}
	}
	d.cached, d.left, d.writes = maps.Clone(d.durable), -1, 0
}

// scattered is a source of two segments, which has only these blocks.
type scattered struct {
	*volume.Image
	blocks map[int64]bool
}

func (s scattered) Size() int64 { return (format.SegmentBlocks + 8) * volume.BlockSize }

func (s scattered) Blocks(ctx context.Context, from, to int64) iter.Seq2[volume.Block, error] {
	return func(yield func(volume.Block, error) bool) {
		for b, err := range s.Image.Blocks(ctx, from, to) {
			if !s.blocks[b.Index()] {
				b = absent{b}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// everywhere reads as blocks that show where they are.
type everywhere struct{}

func (everywhere) ReadAt(p []byte, at int64) (int, error) {
	for i := range p {
		p[i] = byte(at/volume.BlockSize%251) + 1
	}
	return len(p), nil
}

var _ io.ReaderAt = everywhere{}

func (l *lab) scatter(t *testing.T) (format.Volume, map[int64]string) {
	t.Helper()
	want := map[int64]string{}
	src := scattered{&volume.Image{From: everywhere{}}, map[int64]bool{}}
	for _, index := range []int64{3, 4, 9, 40, format.SegmentBlocks - 2, format.SegmentBlocks + 1, format.SegmentBlocks + 5} {
		block := make([]byte, volume.BlockSize)
		_, _ = everywhere{}.ReadAt(block, index*volume.BlockSize)
		want[index], src.blocks[index] = string(block), true
	}
	v, _, err := l.do(t, volume.Task{Source: src})
	require.NoError(t, err)
	require.Len(t, v.Segments, 2)
	return v, want
}

// Whenever the power is lost, and whatever the device then has of what was not synced, the next one fills it to the end,
// and writes no segment again that was whole.
func TestFill_PowerLostAtAnyWrite_IsResumedExactly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, want := l.scatter(t)
	kept := []func(int64) bool{
		func(int64) bool { return true }, func(int64) bool { return false },
		func(index int64) bool { return index%2 == 0 }, func(index int64) bool { return index%2 == 1 },
	}
	for left := range len(want) + 1 {
		for _, lucky := range kept {
			d := newDisk()
			d.left, d.lucky = left, lucky
			_, err := volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
			require.Error(t, err)
			d.restart()
			var done sum
			filled, err := volume.Fill(t.Context(), l.Repository, v, d, 2, done.add)
			require.NoError(t, err)
			require.Equal(t, want, d.durable, "after %d writes", left)
			require.EqualValues(t, len(want)*volume.BlockSize, filled.Written+filled.Kept)
			require.Equal(t, filled.Written+filled.Kept, done.of)
			require.EqualValues(t, d.writes*volume.BlockSize, filled.Written)
			if left > 5 { // the first segment has five, and is durable before the second begins
				require.LessOrEqual(t, d.writes, 2)
			}
		}
	}
}

// sum adds concurrently.
type sum struct {
	mu sync.Mutex
	of int64
}

func (s *sum) add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of += n
}

// A device that has all of it is only read, and made durable.
func TestFill_Again_WritesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, want := l.scatter(t)
	d := newDisk()
	for _, written := range []int{len(want), 0} {
		d.writes = 0
		filled, err := volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
		require.NoError(t, err)
		require.Equal(t, written, d.writes)
		require.EqualValues(t, written*volume.BlockSize, filled.Written)
	}
	d.durable = nil
	_, err := volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
	require.NoError(t, err)
	require.Equal(t, want, d.durable, "what another process wrote, and did not sync")
}

// A segment with a damaged block never looks whole, also when its mark is good.
func TestFill_DamagedBlock_LeavesNoMark(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, _, err := l.archive(t, image(content(1, 40)), volume.Base{}, nil)
	require.NoError(t, err)
	l.flip(t, v, 4)
	d := newDisk()
	for range 2 {
		_, err = volume.Fill(t.Context(), l.Repository, v, d, 3, func(int64) {})
		require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
		require.ErrorContains(t, err, "blocks 4 are damaged")
	}
}

// A device that has anything where the archive has nothing was in use before, unless the segment is whole.
func TestFill_DeviceWasNotEmpty_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, want := l.scatter(t)
	for _, at := range []int64{0, format.SegmentBlocks - 1, format.SegmentBlocks, format.SegmentBlocks + 7} {
		d := newDisk()
		d.cached[at] = string(content(1, 1))
		_, err := volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
		require.True(t, failure.Is(err, failure.Conflict), "block %d: %v", at, err)
		require.NotContains(t, d.cached, int64(format.SegmentBlocks+5), "the mark of the last segment")
	}
	d := newDisk()
	_, err := volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
	require.NoError(t, err)
	require.Equal(t, want, d.durable)
	d.cached[0] = string(content(1, 1))
	_, err = volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
	require.NoError(t, err, "it is in use")
}

// A segment of which nothing is archived is looked at, too.
func TestFill_NothingArchived_DeviceWasNotEmpty_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, _, err := l.archive(t, image(make([]byte, 3*volume.BlockSize+1)), volume.Base{}, nil)
	require.NoError(t, err)
	require.Zero(t, v.Counts.Saved)
	d := newDisk()
	_, err = volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
	require.NoError(t, err)
	d.cached[3] = "x"
	_, err = volume.Fill(t.Context(), l.Repository, v, d, 2, func(int64) {})
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
}

func TestFillDevice_File_IsTheVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "device")
	_, err = volume.FillDevice(t.Context(), l.Repository, v, path, 3, func(int64) {})
	require.True(t, failure.Is(err, failure.Usage), "there is none: %v", err)
	require.NoError(t, os.WriteFile(path, make([]byte, len(data)-1), 0o600))
	_, err = volume.FillDevice(t.Context(), l.Repository, v, path, 3, func(int64) {})
	require.ErrorContains(t, err, "it has 20983864 bytes, and the volume 20983865")
	behind := 100
	require.NoError(t, os.Truncate(path, int64(len(data)+behind)))
	filled, err := volume.FillDevice(t.Context(), l.Repository, v, path, 3, func(int64) {})
	require.NoError(t, err)
	require.Zero(t, filled.Kept)
	is, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(data, make([]byte, behind)...), is))
	filled, err = volume.FillDevice(t.Context(), l.Repository, v, path, 3, func(int64) {})
	require.NoError(t, err)
	require.Zero(t, filled.Written)
}

// Only what stays as it is ends the Job that fills the device: one that is in use is tried again.
func TestFillDevice_CannotBeOpened_UnreadyIfItMayPass(t *testing.T) { //nolint:tparallel // they share the socket
	t.Parallel()
	folder := t.TempDir()
	socket := filepath.Join(folder, "s") // ENXIO, as a device whose disk is not attached
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	for path, want := range map[string]failure.Kind{
		socket: failure.Unready, folder: failure.Usage, filepath.Join(folder, "none"): failure.Usage,
	} {
		t.Run(want.String()+" "+filepath.Base(path), func(t *testing.T) {
			_, err := volume.FillDevice(t.Context(), nil, format.Volume{}, path, 1, func(int64) {})
			require.Equal(t, want, failure.KindOf(err), "%v", err)
		})
	}
}
