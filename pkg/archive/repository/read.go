package repository

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// MaxRange bounds one read of a pack: it has 16 blocks that nothing compresses, or a pack for a storage far away.
	MaxRange = 8<<20 + format.MaxSealed
	// maxGap is the most that it reads in vain between two blocks.
	maxGap = 1 << 20
)

// Use takes a saved block of a segment: its content, which is valid until Use returns, or why it is lost.
type Use func(ctx context.Context, index int, block []byte, lost error) error

// UsePacked is Use that takes the compressed block, too.
type UsePacked func(ctx context.Context, index int, packed, block []byte, lost error) error

// span are consecutive saved blocks of a segment that one read of a pack has.
type span struct {
	pack        format.PackRef
	first, last int // in the segment; blocks between that are not saved belong to no pack
	from, to    int64
}

func spanOf(index int, place format.Place) span {
	from := int64(place.Block.Offset)
	return span{pack: place.Pack, first: index, last: index, from: from, to: from + int64(place.Block.Length)}
}

// spans joins the segment's saved blocks, as far as they follow each other in their packs.
func spans(s format.Segment) (out []span) {
	for i, place := range s {
		if place.State != format.Saved {
			continue
		}
		next := spanOf(i, place)
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.pack == next.pack && next.from >= last.to && next.from-last.to <= maxGap &&
				next.to-last.from <= MaxRange {
				last.last, last.to = i, next.to
				continue
			}
		}
		out = append(out, next)
	}
	return out
}

// ReadBlocks reads all saved blocks of a segment, at most limit ranges of packs (at least 1) at once, and calls use for
// each, concurrently and in no order. A block that is not exactly what was written, or whose pack is missing, is lost:
// use gets the error, which is Corrupt and names the pack, in place of the block. The first error of use, or of the
// storage, ends the reading. While blocks are used, others are read: it takes up to 10 MiB of memory for each of limit,
// and for half as many more.
func (r *Repository) ReadBlocks(ctx context.Context, s format.Segment, limit int, use Use) error {
	return r.ReadPacked(ctx, s, limit, func(ctx context.Context, index int, _, block []byte, lost error) error {
		return use(ctx, index, block, lost)
	})
}

// ReadPacked is ReadBlocks that has the compressed blocks, too. With a limit of 1 they come in order.
func (r *Repository) ReadPacked(ctx context.Context, s format.Segment, limit int, use UsePacked) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limit = max(limit, 1)
	rooms := make(chan struct{}, limit)
	err := parallel.Each(reading, limit+limit/2, spans(s), func(ctx context.Context, _ int, at span) error {
		err := r.readSpan(ctx, s, at, rooms, use)
		if err != nil {
			stop(err)
		}
		return err
	})
	if first := context.Cause(reading); first != nil {
		return first // without the errors of what it stopped
	}
	return err
}

// readSpan reads a span once there is room among the reads, and then uses its blocks.
func (r *Repository) readSpan(
	ctx context.Context, s format.Segment, at span, rooms chan struct{}, use UsePacked,
) error {
	pack, err := r.keys.Pack(at.pack)
	if err != nil {
		return eachOf(ctx, s, at, use, err)
	}
	reader, err := r.reader(int(at.to - at.from))
	if err != nil {
		return err
	}
	defer r.readers.Put(reader)
	behind, err := r.fill(ctx, at, rooms, reader)
	switch {
	case failure.Is(err, failure.NotFound) && failure.HintOf(err) == "": // with one, it is about the storage
		err = failure.New(failure.Corrupt, "read pack", at.pack.Name.String(), "it is missing")
		return eachOf(ctx, s, at, use, err)
	case failure.Is(err, failure.Corrupt) && at.first != at.last: // it ends early, perhaps after some of the blocks
		return r.readOneByOne(ctx, s, at, rooms, use)
	case failure.Is(err, failure.Corrupt):
		return use(ctx, at.first, nil, nil, failure.Annotate(err, "read pack", at.pack.Name.String()))
	case err != nil:
		return failure.Annotate(err, "read pack", at.pack.Name.String())
	}
	for i := at.first; i <= at.last; i++ {
		if s[i].State != format.Saved {
			continue
		}
		packed, block, lost := reader.open(pack, s[i].Block, at.from)
		if lost != nil && !behind {
			if behind, err = r.readBehind(ctx, at, reader); err != nil {
				return failure.Annotate(err, "read pack", at.pack.Name.String())
			}
			if behind {
				packed, block, lost = reader.open(pack, s[i].Block, at.from)
			}
		}
		if err := use(ctx, i, packed, block, lost); err != nil {
			return err
		}
	}
	return nil
}

// fill reads a span, and reports whether it was read from behind another version.
func (r *Repository) fill(ctx context.Context, at span, rooms chan struct{}, into *reader) (behind bool, err error) {
	select {
	case rooms <- struct{}{}:
		defer func() { <-rooms }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	lost := r.store.GetRange(ctx, at.pack.Name.Path(), at.from, into.sealed)
	if !damagedOrGone(lost) {
		return false, lost
	}
	if behind, err = r.readBehind(ctx, at, into); err == nil && !behind {
		err = lost
	}
	return behind, err
}

// readBehind reads a span again, from the version of its pack that the repository wrote, if that is another one and has
// it.
func (r *Repository) readBehind(ctx context.Context, at span, into *reader) (is bool, err error) {
	bucket, id, err := r.behind(ctx, at.pack.Name.Path())
	if err != nil || id == "" {
		return false, err
	}
	err = bucket.GetRange(ctx, at.pack.Name.Path(), id, at.from, into.sealed)
	if damagedOrGone(err) || failure.Is(err, failure.Denied) {
		return false, nil
	}
	return err == nil, err
}

// readOneByOne reads each block of a span by a request of its own.
func (r *Repository) readOneByOne(
	ctx context.Context, s format.Segment, at span, rooms chan struct{}, use UsePacked,
) error {
	for i := at.first; i <= at.last; i++ {
		if s[i].State != format.Saved {
			continue
		}
		if err := r.readSpan(ctx, s, spanOf(i, s[i]), rooms, use); err != nil {
			return err
		}
	}
	return nil
}

// eachOf loses all blocks of a span for one reason.
func eachOf(ctx context.Context, s format.Segment, at span, use UsePacked, lost error) error {
	for i := at.first; i <= at.last; i++ {
		if s[i].State != format.Saved {
			continue
		}
		if err := use(ctx, i, nil, nil, lost); err != nil {
			return err
		}
	}
	return nil
}
