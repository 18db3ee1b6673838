package repository

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// maxRange bounds one read of a pack, and maxGap what it reads in vain between two blocks.
	maxRange = 8 << 20
	maxGap   = 1 << 20
)

// span are consecutive saved blocks of a segment that one read of a pack has.
type span struct {
	pack        format.PackRef
	first, last int // in the segment; blocks between that are not saved belong to no pack
	from, to    int64
}

// spans joins the segment's saved blocks, as far as they follow each other in their packs.
func spans(s format.Segment) (out []span) {
	for i, place := range s {
		if place.State != format.Saved {
			continue
		}
		from := int64(place.Block.Offset)
		to := from + int64(place.Block.Length)
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.pack == place.Pack && from >= last.to && from-last.to <= maxGap && to-last.from <= maxRange {
				last.last, last.to = i, to
				continue
			}
		}
		out = append(out, span{pack: place.Pack, first: i, last: i, from: from, to: to})
	}
	return out
}

// ReadBlocks reads all saved blocks of a segment, at most limit ranges of packs at the same time, and calls use for
// each, concurrently and in no order; the block is valid until use returns. What is not exactly what was written is
// Corrupt, and is not given to use. It takes up to 10 MiB of memory for each of limit.
func (r *Repository) ReadBlocks(
	ctx context.Context, s format.Segment, limit int, use func(ctx context.Context, index int, block []byte) error,
) error {
	return parallel.Each(ctx, limit, spans(s), func(ctx context.Context, _ int, at span) error {
		return r.readSpan(ctx, s, at, use)
	})
}

func (r *Repository) readSpan(
	ctx context.Context, s format.Segment, at span, use func(ctx context.Context, index int, block []byte) error,
) error {
	pack, err := r.keys.Pack(at.pack)
	if err != nil {
		return err
	}
	bytes, err := r.store.GetRange(ctx, at.pack.Name.Path(), at.from, at.to-at.from)
	if err != nil {
		return failure.Annotate(err, "read pack", at.pack.Name.String())
	}
	decoder, err := codec.NewDecoder()
	if err != nil {
		return err
	}
	var packed []byte
	block := make([]byte, codec.MaxBlock)
	for i := at.first; i <= at.last; i++ {
		if s[i].State != format.Saved {
			continue
		}
		b := s[i].Block
		sealed := bytes[int64(b.Offset)-at.from:][:b.Length]
		if packed, err = pack.Open(packed[:0], b, sealed); err != nil {
			return err
		}
		if err := decoder.Decode(block[:b.Raw], b.Codec, packed); err != nil {
			return failure.Annotate(err, "read pack", at.pack.Name.String())
		}
		if err := use(ctx, i, block[:b.Raw]); err != nil {
			return err
		}
	}
	return nil
}
