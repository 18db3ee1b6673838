package verify

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
)

// spread finds which archives have the blocks that were lost when other archives' were read: a sample that missed them
// in their own maps has not found them whole.
func (v *verifier) spread(ctx context.Context, archives []*format.Archive) error {
	if len(v.lost) == 0 {
		return nil
	}
	known := map[format.SegmentName][]bad{}
	for i, a := range archives {
		id := v.options.Archives[i]
		if _, whole := v.result.Whole[id]; !whole {
			continue
		}
		before := len(v.result.Findings)
		for _, s := range a.Stores {
			for _, of := range s.Volumes {
				if err := v.spreadTo(ctx, id, s.ID, of, known); err != nil {
					return err
				}
			}
		}
		if len(v.result.Findings) > before {
			delete(v.result.Whole, id)
		}
	}
	return nil
}

// spreadTo looks for lost blocks in a volume. known are those of segments.
func (v *verifier) spreadTo(
	ctx context.Context, archive string, store uint64, of format.Volume, known map[format.SegmentName][]bad,
) error {
	found := &findings{
		of: Finding{Archive: archive, Store: store, Role: of.Role}, object: map[foundIn]*Finding{},
	}
	for k, name := range of.Segments {
		first := int64(k) * format.SegmentBlocks
		lost, is := known[name]
		if !is {
			s, err := v.repository.Segment(ctx, name)
			if Damaged(err) { // since it was read
				found.add(name.Path(), err, &Range{first, min(first+format.SegmentBlocks, format.Blocks(of.Size)) - 1})
				continue
			}
			if err != nil {
				return err
			}
			for i, place := range s {
				if why := v.lost[place]; why != nil {
					lost = append(lost, bad{int64(i), place.Pack.Name, why})
				}
			}
			known[name] = lost
		}
		for _, b := range lost {
			found.add(b.pack.Path(), b.err, &Range{first + b.index, first + b.index})
		}
	}
	for _, f := range found.all {
		v.note(*f)
	}
	return nil
}
