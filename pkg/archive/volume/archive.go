package volume

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// chunkBlocks are read at the same time, and stay together in a pack: 8 MiB, which a restore reads by one request.
const chunkBlocks = 16

// Stats count the blocks of a volume that was archived.
type Stats struct {
	Read      int64 // of the source
	Zero      int64 // read, and zeros
	Unchanged int64 // read, and where the base has them
	Repeated  int64 // read, and packed earlier in this run
	Packed    int64
	Free      int64 // not read: the file system does not use them
}

func (s *Stats) add(o Stats) {
	s.Read += o.Read
	s.Zero += o.Zero
	s.Unchanged += o.Unchanged
	s.Repeated += o.Repeated
	s.Packed += o.Packed
	s.Free += o.Free
}

// Base is a volume's map in an earlier archive.
type Base struct {
	Segments []format.SegmentName
	// Differential says that the source lists only what may differ from it.
	Differential bool
}

// Archiver archives volumes, one at a time.
type Archiver struct {
	repository *repository.Repository
	packers    chan *repository.Packer
	chunks     chan []byte // the arena of what is read
	recent     recent
}

// NewArchiver returns an archiver that reads so many chunks of 16 blocks at the same time and packs with so many
// goroutines, for which packing was started. Its memory is 8 MiB for each chunk, besides the packing's.
func NewArchiver(r *repository.Repository, packing *repository.Packing, packers, chunks int) (*Archiver, error) {
	a := &Archiver{
		repository: r, packers: make(chan *repository.Packer, packers), chunks: make(chan []byte, chunks),
	}
	for range packers {
		p, err := packing.Packer()
		if err != nil {
			return nil, err
		}
		a.packers <- p
	}
	for range chunks {
		a.chunks <- nil // allocated when it is needed
	}
	return a, nil
}

// Flush starts the upload of all packs that are not full. No volume may be under way.
func (a *Archiver) Flush() error {
	for range cap(a.packers) {
		p := <-a.packers
		err := p.Flush()
		a.packers <- p
		if err != nil {
			return err
		}
	}
	return nil
}

// Archive reads a source, which is number n in the packing's source, and writes its blocks and map. free, if set,
// reports blocks that the file system does not use: they are not read. The result is good once the packs are stored:
// Flush, and the packing's Wait. Its Role and Source are the caller's to fill in.
func (a *Archiver) Archive(
	ctx context.Context, src Source, n uint16, base Base, free func(index int64) bool,
) (v format.Volume, stats Stats, err error) {
	v.Size = src.Size()
	if want := segments(v.Size); len(base.Segments) > want {
		return v, stats, failure.New(failure.Usage, "archive volume", "", "its base has %d segments, more than its %d",
			len(base.Segments), want)
	}
	checksum := format.NewChecksum()
	for k := range segments(v.Size) {
		w, err := a.segment(ctx, src, k, base)
		if err != nil {
			return v, stats, err
		}
		w.number, w.free = n, free
		if err := w.run(ctx); err != nil {
			return v, stats, err
		}
		name, err := a.repository.PutSegment(ctx, w.places)
		if err != nil {
			return v, stats, err
		}
		v.Segments = append(v.Segments, name)
		count(w.places, &v.Counts, checksum)
		stats.add(w.stats)
	}
	v.Checksum = checksum.Sum()
	return v, stats, nil
}

// segments is how many segments the map of a volume of this size has.
func segments(size int64) int {
	return int((format.Blocks(size) + format.SegmentBlocks - 1) / format.SegmentBlocks)
}

// count adds a segment's blocks to the counts and to the checksum of a volume.
func count(s format.Segment, counts *format.Counts, checksum *format.Checksum) {
	for _, place := range s {
		switch place.State {
		case format.Saved:
			counts.Saved++
			checksum.Add(place.Block.Digest)
		case format.Zero:
			counts.Zero++
		case format.Free:
			counts.Free++
		case format.Absent:
		}
	}
}
