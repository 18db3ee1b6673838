package volume

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Target is a volume to write. It is all zeros before.
type Target interface {
	// Write writes a block, whose SHA-256 is digest; many are written at the same time, in no order.
	Write(ctx context.Context, index int64, block []byte, digest format.Digest) error
}

// Restore writes all saved blocks of an archived volume to a target, and reads so many ranges of packs at the same
// time, each in up to 10 MiB of memory. Blocks that are not what was archived are Corrupt and are not written, and the
// error names their packs; those of other ranges of their segment are written all the same.
func Restore(ctx context.Context, r *repository.Repository, v format.Volume, target Target, reads int) error {
	if want := segments(v.Size); len(v.Segments) != want {
		return failure.New(failure.Corrupt, "restore volume", v.Role, "its map has %d segments, not %d",
			len(v.Segments), want)
	}
	checksum := format.NewChecksum()
	var counts format.Counts
	for k, name := range v.Segments {
		s, err := r.Segment(ctx, name)
		if err != nil {
			return err
		}
		first := int64(k) * format.SegmentBlocks
		if want := min(format.SegmentBlocks, format.Blocks(v.Size)-first); int64(len(s)) != want {
			return failure.New(failure.Corrupt, "restore volume", v.Role, "segment %d has %d blocks, not %d", k, len(s),
				want)
		}
		count(s, &counts, checksum)
		err = r.ReadBlocks(ctx, s, reads, func(ctx context.Context, i int, block []byte) error {
			index := first + int64(i)
			if want := min(BlockSize, v.Size-index*BlockSize); int64(len(block)) != want {
				return failure.New(failure.Corrupt, "restore volume", v.Role, "block %d has %d bytes, not %d", index,
					len(block), want)
			}
			return target.Write(ctx, index, block, s[i].Block.Digest)
		})
		if err != nil {
			return err
		}
	}
	if counts != v.Counts || checksum.Sum() != v.Checksum {
		return failure.New(failure.Corrupt, "restore volume", v.Role, "its map has %+v, and the archive %+v", counts,
			v.Counts)
	}
	return nil
}
