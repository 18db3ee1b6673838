package volume

import (
	"context"
	"iter"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Part is a part of a volume's map: the places of the blocks from First on.
type Part struct {
	First  int64
	Blocks int64 // how many the part is about
	Places format.Segment
}

// Parts reads a volume's map, part by part. A part that is missing, damaged or of another volume is Corrupt, and has no
// places; a caller that continues gets the next one. The last error, with a part of no blocks, is of a map that as a
// whole is not what was archived: counts and checksum differ.
func Parts(ctx context.Context, r *repository.Repository, v format.Volume) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		if want := SegmentCount(v.Size); len(v.Segments) != want {
			yield(Part{}, failure.New(failure.Corrupt, "read map", v.Role, "it has %d segments, not %d",
				len(v.Segments), want))
			return
		}
		checksum := format.NewChecksum()
		var counts format.Counts
		whole := true
		for k, name := range v.Segments {
			part := Part{First: int64(k) * format.SegmentBlocks}
			part.Blocks = min(format.SegmentBlocks, format.Blocks(v.Size)-part.First)
			s, err := r.Segment(ctx, name)
			switch {
			case failure.Is(err, failure.NotFound) && failure.HintOf(err) == "":
				err = failure.New(failure.Corrupt, "read segment", name.String(), "it is missing")
			case err == nil && int64(len(s)) != part.Blocks:
				err = failure.New(failure.Corrupt, "read segment", name.String(), "it has %d blocks, not %d", len(s),
					part.Blocks)
			case err == nil:
				part.Places = s
				count(s, &counts, checksum)
			}
			whole = whole && err == nil
			if !yield(part, err) {
				return
			}
		}
		if whole && (counts != v.Counts || checksum.Sum() != v.Checksum) {
			yield(Part{}, failure.New(failure.Corrupt, "read map", v.Role, "it has %+v, and the archive %+v", counts,
				v.Counts))
		}
	}
}
