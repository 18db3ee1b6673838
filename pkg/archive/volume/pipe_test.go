package volume_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// stream archives a source without a size.
func (l *lab) stream(t *testing.T, task volume.Task) (format.Volume, volume.Stats, error) {
	t.Helper()
	packing := l.Pack(t.Context(), repository.PackOptions{
		Names: format.NewPackNames(), Level: codec.ZstdFastest, Packers: 2, Way: repository.Way{Uploads: 2},
	})
	a, err := volume.NewArchiver(l.Repository, packing, 2, 2)
	require.NoError(t, err)
	v, stats, err := a.Archive(t.Context(), task)
	require.NoError(t, a.Flush())
	require.NoError(t, packing.Wait())
	return v, stats, err
}

func (l *lab) pipe(t *testing.T, from io.Reader, base volume.Base) (format.Volume, volume.Stats, error) {
	t.Helper()
	p := volume.NewPipe(from)
	defer p.Close()
	return l.stream(t, volume.Task{Source: p, Base: base})
}

// What comes in pieces of any size, of an unknown length, is a volume.
func TestPipe_AnyLength_IsGivenBack(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{0, 1, 16, 40} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"all":  func(r io.Reader) io.Reader { return r },
			"half": iotest.HalfReader, "end": iotest.DataErrReader,
		} {
			l := newLab(t)
			data := numbered(blocks)
			for _, cut := range []int{0, 12345} { // a short block at the end, or none
				data := data[:len(data)-cut]
				v, stats, err := l.pipe(t, reader(bytes.NewReader(data)), volume.Base{})
				require.NoError(t, err)
				require.EqualValues(t, len(data), v.Size, "%s, %d blocks", name, blocks)
				require.Equal(t, format.Blocks(v.Size), stats.Read)
				require.True(t, bytes.Equal(data, l.restored(t, v)), "%s, %d blocks", name, blocks)
			}
		}
	}
}

func TestPipe_WithABase_PacksWhatChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := numbered(40)
	first, _, err := l.pipe(t, bytes.NewReader(data), volume.Base{})
	require.NoError(t, err)
	base := volume.Base{Segments: first.Segments, Proofs: first.Proofs}
	same, stats, err := l.pipe(t, bytes.NewReader(data), base)
	require.NoError(t, err)
	require.Equal(t, first, same, "it shares the map")
	require.EqualValues(t, 41, stats.Unchanged)
	data[3*volume.BlockSize] ^= 1
	shorter, stats, err := l.pipe(t, bytes.NewReader(data[:20*volume.BlockSize+7]), base)
	require.NoError(t, err)
	require.EqualValues(t, 2, stats.Packed, "the changed block, and the last one, which is shorter")
	require.True(t, bytes.Equal(data[:20*volume.BlockSize+7], l.restored(t, shorter)))
}

func TestPipe_ReaderFails_IsTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("it broke")
	for _, read := range []int{0, 1, volume.BlockSize, 20*volume.BlockSize + 9} {
		_, _, err := newLab(t).pipe(t, io.MultiReader(bytes.NewReader(numbered(40)[:read]), iotest.ErrReader(broken)), volume.Base{})
		require.ErrorIs(t, err, broken)
	}
	_, _, err := newLab(t).pipe(t, iotest.ErrReader(io.ErrUnexpectedEOF), volume.Base{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the end is io.EOF alone")
}

// What does not end is no matter of memory.
func TestPipe_LongInput_TakesNoMemory(t *testing.T) {
	l := newLab(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, stats, err := l.pipe(t, io.LimitReader(zeros{}, 1<<30+1), volume.Base{})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.EqualValues(t, 1<<30+1, v.Size)
	require.EqualValues(t, 2049, stats.Zero)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "all that was allocated, garbage too")
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// endless is a source of so many blocks, which all are zeros but the first of each segment, and which it does not
// announce. Zeros are not written into a buffer: their digest is enough.
type endless struct {
	next          atomic.Int64
	blocks, short int64
}

func (e *endless) Size() int64 {
	next := e.next.Load()
	size := next * volume.BlockSize
	if next == e.blocks {
		size -= e.short
	}
	return size
}

func (e *endless) More(context.Context) (bool, error) { return e.next.Load() < e.blocks, nil }

func (e *endless) Blocks(_ context.Context, from, to int64) iter.Seq2[volume.Block, error] {
	return func(yield func(volume.Block, error) bool) {
		for index := from; index < min(to, e.blocks); index++ {
			e.next.Store(index + 1)
			if !yield(endlessBlock(index), nil) {
				return
			}
		}
	}
}

type endlessBlock int64

func (b endlessBlock) Index() int64 { return int64(b) }

func (b endlessBlock) Absent() bool { return false }

func (b endlessBlock) Read(_ context.Context, into []byte) (format.Digest, error) {
	clear(into[:8])
	if b%format.SegmentBlocks == 0 {
		clear(into)
		into[0] = byte(b>>16) + 1
		return sha256.Sum256(into), nil
	}
	if len(into) < volume.BlockSize {
		clear(into)
	}
	return zeroDigest, nil
}

var zeroDigest = format.Digest(sha256.Sum256(make([]byte, volume.BlockSize)))

// A source without a size has as many segments as it turns out to need.
func TestArchive_GrowingSource_HasTheSegmentsItNeeds(t *testing.T) {
	t.Parallel()
	const segment = format.SegmentBlocks
	for blocks, want := range map[int64][]int{
		segment - 1: {segment - 1}, segment: {segment}, segment + 1: {segment, 1}, 2*segment + 3: {segment, segment, 3},
	} {
		for _, short := range []int64{0, 100} {
			l := newLab(t)
			v, stats, err := l.stream(t, volume.Task{Source: &endless{blocks: blocks, short: short}})
			require.NoError(t, err)
			require.Equal(t, blocks*volume.BlockSize-short, v.Size)
			require.Equal(t, blocks, stats.Read)
			require.EqualValues(t, len(want), v.Counts.Saved)
			require.Equal(t, blocks, v.Counts.Saved+v.Counts.Zero)
			var have []int
			for part, err := range volume.Parts(t.Context(), l.Repository, v) {
				require.NoError(t, err)
				have = append(have, len(part.Places))
			}
			require.Equal(t, want, have)
		}
	}
}

// What an earlier process packed of a source that is read again is taken where it is the same, and nowhere else.
func TestArchive_Reread_TakesWhatIsTheSame(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := numbered(40)
	first, _, err := l.pipe(t, bytes.NewReader(data), volume.Base{})
	require.NoError(t, err)
	places, err := l.Segment(t.Context(), first.Segments[0])
	require.NoError(t, err)
	data[7*volume.BlockSize] ^= 1
	before := packs(t, l)
	for name, task := range map[string]volume.Task{
		"segment": {Segments: first.Segments},
		"packs":   {Packed: func(index int64) (format.Place, bool) { return places[index], true }},
	} {
		task.Source, task.Reread = volume.NewPipe(bytes.NewReader(data)), true
		v, stats, err := l.stream(t, task)
		require.NoError(t, err)
		require.EqualValues(t, 40, stats.Repeated, name)
		require.EqualValues(t, 1, stats.Packed, name)
		require.True(t, bytes.Equal(data, l.restored(t, v)), name)
		require.Equal(t, before+1, packs(t, l))
		before++
	}
	_, _, err = l.stream(t, volume.Task{Source: volume.NewPipe(bytes.NewReader(data)), Segments: first.Segments})
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

// What an earlier process read while the volume had another size is not taken over: it ends elsewhere.
func TestArchive_EarlierHadAnotherSize_NothingShorterIsTaken(t *testing.T) {
	t.Parallel()
	for before, after := range map[int]int{
		2*volume.BlockSize + 100: 2*volume.BlockSize + 200, volume.BlockSize + 100: 2*volume.BlockSize + 200,
		2*volume.BlockSize + 200: 2*volume.BlockSize + 100,
	} {
		l := newLab(t)
		data := numbered(2)
		first, _, err := l.archive(t, image(data[:before]), volume.Base{}, nil)
		require.NoError(t, err)
		places, err := l.Segment(t.Context(), first.Segments[0])
		require.NoError(t, err)
		v, stats, err := l.do(t, volume.Task{
			Source: image(data[:after]), Packed: func(index int64) (place format.Place, ok bool) {
				if ok = index < int64(len(places)); ok {
					place = places[index]
				}
				return place, ok
			},
		})
		require.NoError(t, err)
		require.EqualValues(t, 3, stats.Read)
		require.True(t, bytes.Equal(data[:after], l.restored(t, v)), "%d bytes, %d before", after, before)
		_, _, err = l.do(t, volume.Task{Source: image(data[:after]), Segments: first.Segments})
		require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	}
}
