package volume

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Target is a volume to write. It is all zeros before, or a Clearer.
type Target interface {
	// Write writes a block, whose SHA-256 is digest; many are written at the same time, in no order.
	Write(ctx context.Context, index int64, block []byte, digest format.Digest) error
}

// Clearer is a Target that may have content.
type Clearer interface {
	// Clear makes a block of this size zeros.
	Clear(ctx context.Context, index, size int64) error
}

// Restore writes all saved blocks of an archived volume to a target, clears the others of a Clearer, and reads so many
// ranges of packs at the same time, in the memory of ReadBlocks. Blocks that are not what was archived are not
// written: at the end of their segment the error, which is Corrupt, names them all.
func Restore(ctx context.Context, r *repository.Repository, v format.Volume, target Target, reads int) error {
	return RestoreFrom(ctx, r, v, target, reads, Segments{})
}

// Segments is how a Restore goes through a volume's segments, in order.
type Segments struct {
	// Skip is how many the target already has.
	Skip int
	// Skipped is called with the number of saved blocks of each of these; nil is not.
	Skipped func(blocks int64)
	// Written is called when all blocks of one more were written; n is how many the target has. nil is not.
	Written func(n int) error
}

// RestoreFrom is Restore, segment by segment.
func RestoreFrom(
	ctx context.Context, r *repository.Repository, v format.Volume, target Target, reads int, segments Segments,
) error {
	n := 0
	for part, err := range Parts(ctx, r, v) {
		if err != nil {
			return failure.Annotate(err, "restore volume", v.Role)
		}
		if n++; n <= segments.Skip {
			if segments.Skipped != nil {
				segments.Skipped(part.Places.Saved())
			}
			continue
		}
		if err := restorePart(ctx, r, v, part, target, reads); err != nil {
			return err
		}
		if segments.Written == nil {
			continue
		}
		if err := segments.Written(n); err != nil {
			return err
		}
	}
	return nil
}

func restorePart(
	ctx context.Context, r *repository.Repository, v format.Volume, part Part, target Target, reads int,
) error {
	if err := clearUnsaved(ctx, v, part, target); err != nil {
		return err
	}
	var bad lost
	err := r.ReadBlocks(ctx, part.Places, reads, func(ctx context.Context, i int, block []byte, lost error) error {
		index := part.First + int64(i)
		if lost = fits(v, index, block, lost); lost != nil {
			bad.add(index, part.Places[i].Pack.Name, lost)
			return nil
		}
		return target.Write(ctx, index, block, part.Places[i].Block.Digest)
	})
	if err != nil {
		return err
	}
	return failed("restore volume", v, bad.ranges())
}

func clearUnsaved(ctx context.Context, v format.Volume, part Part, target Target) error {
	clearer, ok := target.(Clearer)
	if !ok {
		return nil
	}
	for i, place := range part.Places {
		if place.State == format.Saved {
			continue
		}
		index := part.First + int64(i)
		if err := clearer.Clear(ctx, index, sizeOf(v, index)); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf is the size of a volume's block.
func sizeOf(v format.Volume, index int64) int64 { return min(BlockSize, v.Size-index*BlockSize) }

// fits loses a block that is not as long as its place in the volume.
func fits(v format.Volume, index int64, block []byte, lost error) error {
	if want := sizeOf(v, index); lost == nil && int64(len(block)) != want {
		return failure.New(failure.Corrupt, "read block", "", "it has %d bytes, not %d", len(block), want)
	}
	return lost
}
