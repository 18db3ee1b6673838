package volume_test

import (
	"context"
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// unchanged is the difference of a volume that did not change.
type unchanged int64

func (u unchanged) Size() int64 { return int64(u) }

func (unchanged) Blocks(context.Context, int64, int64) iter.Seq2[volume.Block, error] {
	return func(func(volume.Block, error) bool) {}
}

// BenchmarkIncrement_Unchanged is what a TiB costs that did not change: its maps are full, and their digests do not
// compress. A tenth is free.
func BenchmarkIncrement_Unchanged(b *testing.B) {
	r, _, err := archivetest.New(b.Context(), objstoretest.NewMemory(nil), repository.DefaultPackSize)
	require.NoError(b, err)
	task := volume.Task{Source: unchanged(1 << 40), Base: volume.Base{Differential: true}}
	task.Free = func(index int64) bool { return index%format.SegmentBlocks < format.SegmentBlocks/10 }
	for k := range volume.SegmentCount(1 << 40) {
		s := fullSegment(uint64(k))
		name, err := r.PutSegment(b.Context(), s)
		require.NoError(b, err)
		task.Base.Segments, task.Base.Proofs = append(task.Base.Segments, name), append(task.Base.Proofs, s.Proof())
	}
	packing := r.Pack(b.Context(), repository.PackOptions{Names: format.NewPackNames(), Packers: 1, Way: r.Way()})
	a, err := volume.NewArchiver(r, packing, 1, 1)
	require.NoError(b, err)
	b.ReportAllocs()
	begin := processorSeconds(b)
	for b.Loop() {
		v, _, err := a.Archive(b.Context(), task)
		require.NoError(b, err)
		require.Equal(b, task.Base.Segments, v.Segments)
	}
	b.ReportMetric((processorSeconds(b)-begin)/float64(b.N), "cpu-s/TiB")
	require.NoError(b, packing.Wait())
}

// fullSegment is one whose digests do not compress.
func fullSegment(seed uint64) format.Segment {
	const inPack = 64
	var text [32]byte
	binary.BigEndian.PutUint64(text[:], seed)
	random, s, pack := rand.NewChaCha8(text), make(format.Segment, format.SegmentBlocks), format.PackRef{}
	for i := range s {
		if i < len(s)/10 {
			s[i].State = format.Free
			continue
		}
		if i%inPack == 0 || i == len(s)/10 {
			_, _ = random.Read(pack.Name[:]) // has no error
		}
		const length = repository.DefaultPackSize / inPack
		of := format.Block{Raw: codec.MaxBlock, Length: length, Offset: uint32(48 + i%inPack*length), Codec: codec.InZstd}
		_, _ = random.Read(of.Digest[:])
		s[i] = format.Place{State: format.Saved, Pack: pack, Block: of}
	}
	return s
}

func processorSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
