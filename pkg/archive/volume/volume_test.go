package volume_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// lab is a repository, and the store that it is in.
type lab struct {
	*repository.Repository
	store *objstoretest.Memory
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{store: objstoretest.NewMemory(nil)}
	var err error
	l.Repository, _, err = archivetest.New(t.Context(), l.store, 4<<20)
	require.NoError(t, err)
	return l
}

// archive archives one volume with two packers and returns what became of it.
func (l *lab) archive(
	t *testing.T, src volume.Source, base volume.Base, free func(int64) bool,
) (format.Volume, volume.Stats, error) {
	t.Helper()
	return l.do(t, volume.Task{Source: src, Base: base, Free: free})
}

// do archives one volume, and checks the result against volume.Count.
func (l *lab) do(t *testing.T, task volume.Task) (format.Volume, volume.Stats, error) {
	t.Helper()
	packing := l.Pack(t.Context(), repository.PackOptions{
		Names: format.NewPackNames(), Level: codec.ZstdFastest, Packers: 2, Way: repository.Way{Uploads: 2},
	})
	a, err := volume.NewArchiver(l.Repository, packing, 2, 4)
	require.NoError(t, err)
	v, stats, err := a.Archive(t.Context(), task)
	require.NoError(t, a.Flush())
	require.NoError(t, packing.Wait())
	if err == nil {
		counted, err := volume.Count(t.Context(), l.Repository, task)
		require.NoError(t, err)
		require.Equal(t, volume.Stats{Read: stats.Read, Free: stats.Free}, counted)
	}
	return v, stats, err
}

// restored is the volume's content, by a restore onto a file of zeros.
func (l *lab) restored(t *testing.T, v format.Volume) []byte {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(v.Size))
	require.NoError(t, volume.Restore(t.Context(), l.Repository, v, &volume.Image{To: file}, 4))
	out, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return out
}

// content has so many blocks, of which each fourth is zeros and each eighth the same, and a short one at its end.
func content(seed uint64, blocks int) []byte {
	out := make([]byte, blocks*volume.BlockSize+12345)
	random := rand.NewChaCha8([32]byte{byte(seed)})
	for i := range blocks + 1 {
		part := out[i*volume.BlockSize:][:min(volume.BlockSize, len(out)-i*volume.BlockSize)]
		switch {
		case i%4 == 3:
		case i%8 == 1:
			copy(part, bytes.Repeat([]byte("the same "), volume.BlockSize/9))
		default:
			_, _ = random.Read(part)
		}
	}
	return out
}

// numbered has so many blocks, and a short one at its end, which all differ and take next to nothing in a pack.
func numbered(blocks int) []byte {
	out := make([]byte, blocks*volume.BlockSize+12345)
	for i := range blocks + 1 {
		copy(out[i*volume.BlockSize:], "block "+strconv.Itoa(i))
	}
	return out
}

func image(data []byte) *volume.Image {
	return &volume.Image{Bytes: int64(len(data)), From: bytes.NewReader(data)}
}

func packs(t *testing.T, l *lab) int {
	t.Helper()
	objects, err := l.store.List(t.Context(), format.PackPrefix)
	require.NoError(t, err)
	return len(objects)
}

func TestArchive_Volume_IsGivenBack(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{0, 1, 16, 40} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			data := content(1, blocks)
			v, stats, err := l.archive(t, image(data), volume.Base{}, nil)
			require.NoError(t, err)
			require.EqualValues(t, blocks+1, stats.Read)
			require.EqualValues(t, (blocks+1)/4, stats.Zero)
			require.Equal(t, stats.Read, stats.Zero+stats.Repeated+stats.Packed)
			require.True(t, bytes.Equal(data, l.restored(t, v)))
			s, err := l.Segment(t.Context(), v.Segments[0])
			require.NoError(t, err)
			require.Equal(t, []format.Digest{s.Proof()}, v.Proofs)
		})
	}
}

// An archive of the same content has its base's segment, and writes none.
func TestArchive_NothingChanged_SharesTheSegment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	first, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	again, _, err := l.archive(t, image(data), volume.Base{Segments: first.Segments}, nil)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// The second archive of a volume packs what changed, and its map shares the rest.
func TestArchive_WithABase_PacksOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v1, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	before := packs(t, l)
	changed := slices.Clone(data)
	for _, block := range []int{2, 17} {
		changed[block*volume.BlockSize] ^= 1
	}
	copy(changed[4*volume.BlockSize:], make([]byte, volume.BlockSize))
	v2, stats, err := l.archive(t, image(changed), volume.Base{Segments: v1.Segments}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, stats.Packed)
	require.LessOrEqual(t, packs(t, l), before+2, "one for each packer")
	require.True(t, bytes.Equal(changed, l.restored(t, v2)))
	require.True(t, bytes.Equal(data, l.restored(t, v1)), "the first one is as it was")

	v3, stats, err := l.archive(t, image(changed), volume.Base{Segments: v2.Segments}, nil)
	require.NoError(t, err)
	require.Zero(t, stats.Packed)
	require.Equal(t, v2, v3, "an unchanged volume shares its map")
}

// difference lists only some of an image's blocks.
type difference struct {
	*volume.Image
	listed []int64
	absent int64
}

type absent struct{ volume.Block }

func (absent) Absent() bool { return true }

func (d *difference) Blocks(ctx context.Context, from, to int64) iter.Seq2[volume.Block, error] {
	return func(yield func(volume.Block, error) bool) {
		for b, err := range d.Image.Blocks(ctx, from, to) {
			if err != nil {
				yield(nil, err)
				return
			}
			if b.Index() == d.absent {
				b = absent{b}
			}
			if slices.Contains(d.listed, b.Index()) && !yield(b, nil) {
				return
			}
		}
	}
}

// An increment reads the changed blocks alone.
func TestArchive_Difference_ReadsOnlyWhatIsListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v1, _, err := l.archive(t, image(data), volume.Base{}, nil)
	require.NoError(t, err)
	changed := slices.Clone(data)
	changed[20*volume.BlockSize] ^= 1
	copy(changed[6*volume.BlockSize:], make([]byte, volume.BlockSize))
	v2, stats, err := l.archive(t, &difference{image(changed), []int64{5, 6, 20}, 6},
		volume.Base{Segments: v1.Segments, Proofs: v1.Proofs, Differential: true}, nil)
	require.NoError(t, err)
	require.Equal(t, volume.Stats{Read: 2, Unchanged: 1, Packed: 1}, stats)
	require.True(t, bytes.Equal(changed, l.restored(t, v2)))
	s, err := l.Segment(t.Context(), v2.Segments[0])
	require.NoError(t, err)
	require.Equal(t, []format.Digest{s.Proof()}, v2.Proofs)

	for _, proofs := range [][]format.Digest{v2.Proofs, nil, {}} { // a base of an earlier version has none
		v3, stats, err := l.archive(t, &difference{image(changed), nil, -1},
			volume.Base{Segments: v2.Segments, Proofs: proofs, Differential: true}, nil)
		require.NoError(t, err)
		require.Zero(t, stats)
		require.Equal(t, v2, v3, "an unchanged volume shares its map")
	}
	_, _, err = l.archive(t, &difference{image(changed), nil, -1},
		volume.Base{Segments: v2.Segments, Proofs: make([]format.Digest, 2), Differential: true}, nil)
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

func TestArchive_FreeBlocks_AreNotReadAndAreZeros(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, stats, err := l.archive(t, image(data), volume.Base{}, func(index int64) bool { return index >= 8 && index < 16 })
	require.NoError(t, err)
	require.EqualValues(t, 8, stats.Free)
	require.EqualValues(t, 8, v.Counts.Free)
	require.EqualValues(t, 33, stats.Read)
	copy(data[8*volume.BlockSize:], make([]byte, 8*volume.BlockSize))
	require.True(t, bytes.Equal(data, l.restored(t, v)))
}

// Blocks that were read together are next to each other in a pack, whatever packs beside them: 40 blocks take few reads.
func TestArchive_TwoPackers_KeepChunksTogether(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	random := make([]byte, 64*volume.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	v, _, err := l.archive(t, image(random), volume.Base{}, nil)
	require.NoError(t, err)
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	next := 0
	for i := 1; i < len(s); i++ {
		if s[i].Pack == s[i-1].Pack && s[i].Block.Offset == s[i-1].Block.Offset+s[i-1].Block.Length {
			next++
		}
	}
	require.GreaterOrEqual(t, next, 48, "of 63 neighbours; a pack of 4 MiB has 8 blocks")
}

// failing is a source that cannot be read, or lists what it does not have.
type failing struct {
	*volume.Image
	listed iter.Seq2[volume.Block, error]
}

func (f *failing) Blocks(context.Context, int64, int64) iter.Seq2[volume.Block, error] {
	return f.listed
}

type blockOf struct {
	index int64
	err   error
}

func (b blockOf) Index() int64 { return b.index }
func (blockOf) Absent() bool   { return false }
func (b blockOf) Read(_ context.Context, into []byte) (format.Digest, error) {
	return sha256.Sum256(into), b.err
}

func TestArchive_SourceFails_IsTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		listed iter.Seq2[volume.Block, error]
		want   func(error) bool
	}{
		"a block":  {func(yield func(volume.Block, error) bool) { yield(blockOf{1, broken}, nil) }, func(err error) bool { return errors.Is(err, broken) }},
		"the list": {func(yield func(volume.Block, error) bool) { yield(nil, broken) }, func(err error) bool { return errors.Is(err, broken) }},
		"out of order": {func(yield func(volume.Block, error) bool) {
			if yield(blockOf{1, nil}, nil) {
				yield(blockOf{1, nil}, nil)
			}
		},
			func(err error) bool { return failure.Is(err, failure.Corrupt) }},
		"beyond the end": {func(yield func(volume.Block, error) bool) { yield(blockOf{9, nil}, nil) },
			func(err error) bool { return failure.Is(err, failure.Corrupt) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, _, err := l.archive(t, &failing{image(content(1, 8)), row.listed}, volume.Base{}, nil)
			require.True(t, row.want(err), "%v", err)
		})
	}
}

func TestRestore_MapIsNotTheArchives_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v, _, err := l.archive(t, image(content(1, 8)), volume.Base{}, nil)
	require.NoError(t, err)
	other, _, err := l.archive(t, image(content(2, 8)), volume.Base{}, nil)
	require.NoError(t, err)
	for name, change := range map[string]func(*format.Volume){
		"another volume's segment": func(v *format.Volume) { v.Segments = other.Segments },
		"no segment":               func(v *format.Volume) { v.Segments = nil },
		"another size":             func(v *format.Volume) { v.Size += volume.BlockSize },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := v
			change(&changed)
			err := volume.Restore(t.Context(), l.Repository, changed, &volume.Image{To: nothing{}}, 2)
			require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
		})
	}
}

type nothing struct{}

func (nothing) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
