package repository

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// FindPacks calls use, in order, for each pack of a run that is stored, from a number on. pending is the most packs
// that the run had begun and not stored: so many may be missing before the last one. It reads headers and trailers
// alone.
func (r *Repository) FindPacks(
	ctx context.Context, names format.PackNames, from, pending int, use func(format.Contents) error,
) error {
	for missing := 0; missing <= pending; {
		found := make([]*format.Contents, pending+1)
		err := parallel.Each(ctx, len(found), found, func(ctx context.Context, i int, _ *format.Contents) (err error) {
			found[i], err = r.contents(ctx, names.At(from+i))
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range found {
			if c == nil {
				missing++
			} else if err := use(*c); err != nil {
				return err
			}
		}
		from += len(found)
	}
	return nil
}

// contents is the trailer of a pack; nil without that pack.
func (r *Repository) contents(ctx context.Context, name format.PackName) (*format.Contents, error) {
	objects, err := r.store.List(ctx, name.Path())
	if err != nil || len(objects) == 0 {
		return nil, failure.Annotate(err, "find pack", name.String())
	}
	c, err := r.Contents(ctx, name, objects[0].Size)
	return &c, err
}
