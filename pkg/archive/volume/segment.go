package volume

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// IsZero reports whether a block is all zeros.
func IsZero(raw []byte) bool { return bytes.Equal(raw, zeros[:len(raw)]) }

// isZero is IsZero of a block with this digest, which shows it of a whole block: that is not read once more.
func isZero(digest format.Digest, raw []byte) bool {
	if len(raw) == BlockSize {
		return digest == zeroDigest
	}
	return IsZero(raw)
}

// zeros is a block of zeros.
var zeros = make([]byte, BlockSize)

// segmentWork archives one segment of a volume.
type segmentWork struct {
	*Archiver
	*Task
	first   int64          // the volume's block with which the segment begins
	base    format.Segment // nil without one
	earlier format.Segment // of Task.Segments, with Task.Reread
	places  format.Segment
	shared  bool           // places are the base's own: nothing differs so far
	leftOut map[int64]bool // blocks that a differential base left out as free, and this archive must not

	mu    sync.Mutex // guards stats
	stats Stats
}

// newSegment prepares segment k of a volume: it begins as it is in a differential base, and empty otherwise.
func newSegment(ctx context.Context, r *repository.Repository, task *Task, k int) (*segmentWork, error) {
	w := &segmentWork{Task: task, first: int64(k) * format.SegmentBlocks}
	blocks := int64(format.SegmentBlocks)
	if _, is := task.Source.(Growing); !is {
		blocks = min(blocks, format.Blocks(task.Source.Size())-w.first)
	}
	var err error
	if task.Reread && k < len(task.Segments) {
		if w.earlier, err = r.Segment(ctx, task.Segments[k]); err != nil {
			return nil, err
		}
	}
	base := task.Base
	if k >= len(base.Segments) {
		w.places = make(format.Segment, blocks)
		return w, nil
	}
	if w.base, err = r.Segment(ctx, base.Segments[k]); err != nil {
		return nil, err
	}
	if base.Differential && int64(len(w.base)) > blocks {
		return nil, failure.New(failure.Usage, "archive volume", "", "segment %d of its base has %d blocks, its own %d",
			k, len(w.base), blocks)
	}
	if !base.Differential {
		w.places = make(format.Segment, blocks)
		return w, nil
	}
	w.findLeftOut()
	if w.leftOut != nil && w.Whole == nil {
		return nil, failure.New(failure.Usage, "archive volume", "",
			"its base left out %d blocks of segment %d that it needs, and only changes are listed", len(w.leftOut), k)
	}
	w.places, w.shared = w.base, true
	if w.leftOut != nil || int64(len(w.base)) < blocks {
		w.own(blocks)
	}
	for index := range w.leftOut {
		w.places[index-w.first] = format.Place{} // unless it is read
	}
	return w, nil
}

// findLeftOut finds the blocks that the base left out as free, and this archive must not.
func (w *segmentWork) findLeftOut() {
	for i := range w.base {
		if index := w.first + int64(i); w.base[i].State == format.Free && !w.skips(index) {
			if w.leftOut == nil {
				w.leftOut = map[int64]bool{}
			}
			w.leftOut[index] = true
		}
	}
}

// own makes places, of so many blocks, differ from the base's. Most segments of an increment never do.
func (w *segmentWork) own(blocks int64) {
	if w.shared {
		w.places, w.shared = make(format.Segment, blocks), false
		copy(w.places, w.base)
	}
}

// put writes the segment, unless it is the base's, and returns its name and proof.
func (w *segmentWork) put(ctx context.Context) (name format.SegmentName, proof format.Digest, err error) {
	if w.shared || w.base != nil && slices.Equal(w.places, w.base) {
		k := w.first / format.SegmentBlocks
		if len(w.Base.Proofs) > 0 { // other writers may write an empty list
			return w.Base.Segments[k], w.Base.Proofs[k], nil
		}
		return w.Base.Segments[k], w.base.Proof(), nil
	}
	name, err = w.repository.PutSegment(ctx, w.places)
	return name, w.places.Proof(), err
}

// skips reports whether a block is not read since it is free.
func (w *segmentWork) skips(index int64) bool { return !w.Audit && w.Free != nil && w.Free(index) }

// audited reports whether a block is read although it is free.
func (w *segmentWork) audited(index int64) bool { return w.Audit && w.Free != nil && w.Free(index) }

// run archives the segment's blocks, chunk by chunk.
func (w *segmentWork) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	listed := w.list(ctx, func(chunk []Block) error {
		select {
		case buffer := <-w.chunks:
			group.Go(func() error { return w.archive(ctx, chunk, buffer) })
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err := group.Wait(); err != nil {
		return err // it may be why the list ended
	}
	if _, is := w.Source.(Growing); is && listed == nil {
		w.places = w.places[:min(int64(len(w.places)), format.Blocks(w.Source.Size())-w.first)]
	}
	return listed
}

// list calls do for each chunk of blocks that are to be read.
func (w *segmentWork) list(ctx context.Context, do func(chunk []Block) error) error {
	var chunk []Block
	next := w.first
	for b, err := range w.listed(ctx) {
		if err != nil {
			return failure.Annotate(err, "list blocks", "")
		}
		index := b.Index()
		if index < next || index >= w.first+int64(len(w.places)) {
			return failure.New(failure.Corrupt, "list blocks", "", "block %d is listed after %d, of %d", index, next-1,
				w.first+int64(len(w.places)))
		}
		next = index + 1
		w.own(int64(len(w.places)))
		switch {
		case b.Absent():
			w.places[index-w.first] = format.Place{State: format.Absent}
			continue
		case w.skips(index):
			w.places[index-w.first] = format.Place{State: format.Free}
			w.note(Stats{Free: 1})
			continue
		case w.packed(index):
			continue
		}
		if chunk = append(chunk, b); len(chunk) == chunkBlocks {
			if err := do(chunk); err != nil {
				return err
			}
			chunk = nil
		}
	}
	if len(chunk) == 0 {
		return nil
	}
	return do(chunk)
}

// packed reports whether an earlier process packed a block, and notes where it is then.
func (w *segmentWork) packed(index int64) bool {
	if w.Packed == nil || w.Reread {
		return false
	}
	place, ok := w.Packed(index)
	if ok = ok && int64(place.Block.Raw) == w.sizeOf(index); ok {
		w.places[index-w.first] = place
		w.recent.add(place)
		stats := Stats{Read: 1, Packed: 1}
		w.audit(index, false, &stats)
		w.note(stats)
	}
	return ok
}

// archive reads a chunk's blocks, and packs them in their order.
func (w *segmentWork) archive(ctx context.Context, chunk []Block, buffer []byte) error {
	if buffer == nil {
		buffer = alignedBuffer(chunkBlocks * BlockSize)
	}
	defer func() { w.chunks <- buffer }()
	raws := slices.Collect(slices.Chunk(buffer, BlockSize))
	for i, b := range chunk {
		raws[i] = raws[i][:w.sizeOf(b.Index())]
	}
	if first := row(chunk); first != nil {
		if err := first.ReadRow(ctx, buffer[:(len(chunk)-1)*BlockSize+len(raws[len(chunk)-1])]); err != nil {
			return err
		}
		return w.pack(ctx, chunk, func(i int) format.Digest { return digestOf(raws[i]) }, raws)
	}
	digests := make([]format.Digest, len(chunk))
	reads, reading := errgroup.WithContext(ctx)
	for i, b := range chunk {
		reads.Go(func() (err error) {
			digests[i], err = b.Read(reading, raws[i])
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	return w.pack(ctx, chunk, func(i int) format.Digest { return digests[i] }, raws)
}

// row returns the first block of a chunk that can be read at once; nil of any other.
func row(chunk []Block) rowBlock {
	first, _ := chunk[0].(rowBlock)
	for i, b := range chunk[1:] {
		if next, is := b.(rowBlock); !is || !next.Follows(chunk[i]) {
			return nil
		}
	}
	return first
}

// pack packs the blocks of a chunk that are nowhere yet, by one packer, so that they are next to each other.
func (w *segmentWork) pack(
	ctx context.Context, chunk []Block, digestOf func(i int) format.Digest, raws [][]byte,
) error {
	stats := Stats{Read: int64(len(chunk))}
	var packer *repository.Packer
	defer func() {
		if packer != nil {
			w.packers <- packer
		}
	}()
	for i, b := range chunk {
		digest := digestOf(i)
		if w.known(b.Index(), digest, raws[i], &stats) {
			continue
		}
		if packer == nil {
			select {
			case packer = <-w.packers:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		from := format.Origin{Volume: w.Number, Index: saturate.To[uint32](b.Index())}
		place, err := packer.Add(from, digest, raws[i])
		if err != nil {
			return err
		}
		w.places[b.Index()-w.first] = place
		w.recent.add(place)
		stats.Packed++
	}
	w.note(stats)
	return nil
}

// known reports whether a block need not be packed, and notes where it is then.
func (w *segmentWork) known(index int64, digest format.Digest, raw []byte, stats *Stats) bool {
	at, zero := index-w.first, isZero(digest, raw)
	w.audit(index, zero, stats)
	if zero {
		w.places[at] = format.Place{State: format.Zero}
		stats.Zero++
		return true
	}
	if at < int64(len(w.base)) && isBlock(w.base[at], digest, raw) {
		w.places[at] = w.base[at]
		stats.Unchanged++
		return true
	}
	if place, ok := w.packedBefore(index); ok && isBlock(place, digest, raw) {
		w.places[at] = place
		w.recent.add(place)
		stats.Repeated++
		return true
	}
	if place, ok := w.recent.find(digest); ok && isBlock(place, digest, raw) {
		w.places[at] = place
		stats.Repeated++
		return true
	}
	return false
}

// packedBefore is where an earlier process packed what it read of a block, which is read again.
func (w *segmentWork) packedBefore(index int64) (format.Place, bool) {
	if !w.Reread {
		return format.Place{}, false
	}
	if w.earlier != nil {
		at := index - w.first
		if at >= int64(len(w.earlier)) {
			return format.Place{}, false
		}
		return w.earlier[at], true
	}
	if w.Packed == nil {
		return format.Place{}, false
	}
	return w.Packed(index)
}

// audit counts a block that is read although it is free.
func (w *segmentWork) audit(index int64, zero bool, stats *Stats) {
	if !w.audited(index) {
		return
	}
	stats.Audited++
	if !zero {
		stats.AuditedData++
	}
}

// isBlock reports whether a place has a block of this digest and length.
func isBlock(p format.Place, digest format.Digest, raw []byte) bool {
	return p.State == format.Saved && p.Block.Digest == digest && int(p.Block.Raw) == len(raw)
}

func (w *segmentWork) note(s Stats) {
	w.mu.Lock()
	w.stats.Add(s)
	w.mu.Unlock()
	if w.Progress != nil {
		w.Progress(s)
	}
}
