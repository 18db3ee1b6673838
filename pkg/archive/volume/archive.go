package volume

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// chunkBlocks are read at the same time, and stay together in a pack: 8 MiB, which a restore reads by one request.
const chunkBlocks = 16

// Stats count the blocks of a volume that was archived. Those that an earlier process of the run packed are Read and
// Packed.
type Stats struct {
	Read      int64 `json:"read"`                // of the source
	Zero      int64 `json:"zero,omitempty"`      // read, and zeros
	Unchanged int64 `json:"unchanged,omitempty"` // read, and where the base has them
	Repeated  int64 `json:"repeated,omitempty"`  // read, and packed earlier in this run
	Packed    int64 `json:"packed,omitempty"`
	Free      int64 `json:"free,omitempty"` // not read: the file system does not use them
	// Audited are read although they are free, and AuditedData those of them that are not zeros.
	Audited     int64 `json:"audited,omitempty"`
	AuditedData int64 `json:"auditedData,omitempty"`
}

// Add adds other blocks.
func (s *Stats) Add(o Stats) {
	s.Read += o.Read
	s.Zero += o.Zero
	s.Unchanged += o.Unchanged
	s.Repeated += o.Repeated
	s.Packed += o.Packed
	s.Free += o.Free
	s.Audited += o.Audited
	s.AuditedData += o.AuditedData
}

// Base is a volume's map in an earlier archive.
type Base struct {
	Segments []format.SegmentName
	Proofs   []format.Digest // those of the segments, or none
	// Differential means that the source lists only what may differ from it.
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

// Task is a volume to archive. All but Source is optional.
type Task struct {
	Source Source
	Number uint16 // of the volume in the packing's source
	Base   Base
	// Free reports blocks that the file system does not use: they are not read. With Audit they are, and are counted.
	Free  func(index int64) bool
	Audit bool
	// Whole is the volume of a differential Source: blocks that were left out of the base as free, and may not be left
	// out now, are read from it, whether or not they changed. Without it they are a Usage error.
	Whole Source
	// Segments begin the map, and Packed reports further blocks that are in packs, both of an earlier process of the
	// run: their blocks are not read. With Reread they are, and are not packed again where they are the same.
	Segments []format.SegmentName
	Packed   func(index int64) (format.Place, bool)
	Reread   bool
	// Progress is called with more blocks that were dealt with, concurrently. Wrote is called with each segment that
	// was written: its packs may not be stored yet.
	Progress func(more Stats)
	Wrote    func(name format.SegmentName, of Stats)
}

// check returns a Usage error for what cannot be archived.
func (t *Task) check() error {
	if n := len(t.Base.Proofs); n > 0 && n != len(t.Base.Segments) {
		return failure.New(failure.Usage, "archive volume", "", "its base has %d proofs of %d segments", n,
			len(t.Base.Segments))
	}
	if _, is := t.Source.(Growing); is {
		if t.Base.Differential || t.Free != nil || (len(t.Segments) > 0 || t.Packed != nil) && !t.Reread {
			return failure.New(failure.Usage, "archive volume", "", "all blocks of a source without a size are read")
		}
		return nil
	}
	want := SegmentCount(t.Source.Size())
	if t.Base.Differential && len(t.Base.Segments) > want || !t.Reread && len(t.Segments) > want {
		return failure.New(failure.Usage, "archive volume", "",
			"its base has %d segments, and %d are written: it has %d", len(t.Base.Segments), len(t.Segments), want)
	}
	return nil
}

// sizeOf is the size of a block of the source.
func (t *Task) sizeOf(index int64) int64 { return min(BlockSize, t.Source.Size()-index*BlockSize) }

// takes refuses a segment of an earlier process that is not as long as segment k is.
func (t *Task) takes(k int, name format.SegmentName, s format.Segment) error {
	first := int64(k) * format.SegmentBlocks
	want := min(format.SegmentBlocks, format.Blocks(t.Source.Size())-first)
	if n := int64(len(s)); n == want &&
		(s[n-1].State != format.Saved || int64(s[n-1].Block.Raw) == t.sizeOf(first+n-1)) {
		return nil
	}
	return failure.New(failure.Corrupt, "archive volume", name.String(), "it is of a volume of another size")
}

// has reports whether the volume has segment k, if it has all before it.
func (t *Task) has(ctx context.Context, k int) (bool, error) {
	if stream, is := t.Source.(Growing); is {
		return stream.More(ctx)
	}
	return k < SegmentCount(t.Source.Size()), nil
}

// Archive reads a source and writes its blocks and map. The result is good once the packs are stored: Flush, and the
// packing's Wait. Its Role and Source are the caller's to fill in, and Stats are not those of Task.Segments.
func (a *Archiver) Archive(ctx context.Context, task Task) (v format.Volume, stats Stats, err error) {
	if err := task.check(); err != nil {
		return v, stats, err
	}
	checksum := format.NewChecksum()
	for k := 0; ; k++ {
		more, err := task.has(ctx, k)
		if err != nil {
			return v, stats, err
		}
		if !more {
			v.Size, v.Checksum = task.Source.Size(), checksum.Sum()
			return v, stats, nil
		}
		var places format.Segment
		var name format.SegmentName
		var proof format.Digest
		if k < len(task.Segments) && !task.Reread {
			name = task.Segments[k]
			places, err = a.repository.Segment(ctx, name)
			if err == nil {
				err = task.takes(k, name, places)
			}
			proof = places.Proof()
		} else {
			name, proof, places, err = a.segment(ctx, &task, k, &stats)
		}
		if err != nil {
			return v, stats, err
		}
		v.Segments, v.Proofs = append(v.Segments, name), append(v.Proofs, proof)
		count(places, &v.Counts, checksum)
	}
}

// ArchiveSegment is Archive of segment k alone, which must exist. Task.Wrote is called, and the segment is good once
// the packs that were begun before are stored.
func (a *Archiver) ArchiveSegment(ctx context.Context, task Task, k int) (format.SegmentName, error) {
	name, _, _, err := a.segment(ctx, &task, k, &Stats{})
	return name, err
}

// Assemble returns the volume of this size with these segments, which it reads. Its Role and Source are the caller's
// to fill in.
func Assemble(
	ctx context.Context, r *repository.Repository, size int64, names []format.SegmentName,
) (format.Volume, error) {
	v := format.Volume{Size: size, Segments: names}
	checksum := format.NewChecksum()
	for k, name := range names {
		places, err := r.Segment(ctx, name)
		if err != nil {
			return v, err
		}
		want := min(format.SegmentBlocks, format.Blocks(size)-int64(k)*format.SegmentBlocks)
		if int64(len(places)) != want {
			return v, failure.New(failure.Corrupt, "assemble volume", name.String(), "it has %d blocks, not %d",
				len(places), want)
		}
		v.Proofs = append(v.Proofs, places.Proof())
		count(places, &v.Counts, checksum)
	}
	v.Checksum = checksum.Sum()
	return v, nil
}

// segment archives segment k of a volume.
func (a *Archiver) segment(
	ctx context.Context, task *Task, k int, stats *Stats,
) (name format.SegmentName, proof format.Digest, places format.Segment, err error) {
	w, err := newSegment(ctx, a.repository, task, k)
	if err == nil {
		w.Archiver = a
		err = w.run(ctx)
	}
	if err == nil {
		name, proof, err = w.put(ctx)
	}
	if err != nil {
		return name, proof, nil, err
	}
	stats.Add(w.stats)
	if task.Wrote != nil {
		task.Wrote(name, w.stats)
	}
	return name, proof, w.places, nil
}

// Count returns how many blocks Archive would read, and leave out as free, if it had no Segments and Packed. It reads
// all maps of a differential base, to find what that left out.
func Count(ctx context.Context, r *repository.Repository, task Task) (stats Stats, err error) {
	if !task.Base.Differential {
		task.Base = Base{} // whose maps need not be read
	}
	task.Segments, task.Packed, task.Progress, task.Reread = nil, nil, nil, false
	for k := range SegmentCount(task.Source.Size()) {
		w, err := newSegment(ctx, r, &task, k)
		if err == nil {
			err = w.list(ctx, func(chunk []Block) error {
				stats.Read += int64(len(chunk))
				return nil
			})
		}
		if err != nil {
			return stats, err
		}
		stats.Add(w.stats)
	}
	return stats, nil
}

// SegmentCount is how many segments the map of a volume of this size has.
func SegmentCount(size int64) int {
	return int((format.Blocks(size) + format.SegmentBlocks - 1) / format.SegmentBlocks)
}

// count adds a segment's blocks to the counts and to the checksum of a volume.
func count(s format.Segment, counts *format.Counts, checksum *format.Checksum) {
	*counts = counts.Plus(s)
	for _, place := range s {
		if place.State == format.Saved {
			checksum.Add(place.Block.Digest)
		}
	}
}
