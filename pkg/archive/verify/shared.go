package verify

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
)

// shared is a segment, and its blocks that were lost wherever they were read.
type shared struct {
	blocks int64
	lost   []bad
}

// spread finds where else the blocks are that were lost: in the maps of other archives, and at other places of the same
// one. A sample that missed them there has not found these whole, whatever else it found of them.
func (v *verifier) spread(ctx context.Context, archives []*format.Archive) error {
	if len(v.lost) == 0 {
		return nil
	}
	known := map[format.SegmentName]shared{}
	for i, a := range archives {
		if a == nil {
			continue
		}
		for _, s := range a.Stores {
			for _, of := range s.Volumes {
				if err := v.spreadTo(ctx, site{v.options.Archives[i], s.ID, of.Role}, of, known); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// spreadTo looks for lost blocks in a volume. known are those of segments.
func (v *verifier) spreadTo(
	ctx context.Context, at site, of format.Volume, known map[format.SegmentName]shared,
) error {
	for k, name := range of.Segments {
		first := int64(k) * format.SegmentBlocks
		blocks := min(format.SegmentBlocks, format.Blocks(of.Size)-first)
		has, is := known[name]
		if !is {
			s, err := v.repository.Segment(ctx, name)
			if Damaged(err) {
				v.found.add(at, name.Path(), err, &Range{first, first + blocks - 1})
				continue
			}
			if err != nil {
				return err
			}
			has.blocks = int64(len(s))
			for i, place := range s {
				if why := v.lost[place]; why != nil {
					has.lost = append(has.lost, bad{int64(i), place.Pack.Name, why})
				}
			}
			known[name] = has
		}
		if has.blocks != blocks { // the segment is a finding: it is not one of this volume
			continue
		}
		for _, b := range has.lost {
			v.found.add(at, b.pack.Path(), b.err, &Range{first + b.index, first + b.index})
		}
	}
	return nil
}
