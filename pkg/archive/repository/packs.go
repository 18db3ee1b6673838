package repository

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Packs lists the sizes of all packs. Objects that cannot be one are left out.
func (r *Repository) Packs(ctx context.Context) (map[format.PackName]int64, error) {
	objects, err := r.store.List(ctx, format.PackPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list packs", r.store.URL())
	}
	sizes := make(map[format.PackName]int64, len(objects))
	for _, o := range objects {
		if name, err := format.ParsePackPath(o.Key); err == nil {
			sizes[name] = o.Size
		}
	}
	return sizes, nil
}

// Contents reads what a pack of this size says of itself, in three requests.
func (r *Repository) Contents(ctx context.Context, name format.PackName, size int64) (format.Contents, error) {
	return format.ReadPack(rangeReader{ctx, r, name.Path()}, size, r.keys, name)
}

// rangeReader reads an object as format wants it.
type rangeReader struct {
	ctx        context.Context //nolint:containedctx // of one call
	repository *Repository
	key        string
}

func (r rangeReader) ReadAt(p []byte, at int64) (int, error) {
	data, err := r.repository.store.GetRange(r.ctx, r.key, at, int64(len(p)))
	return copy(p, data), err
}
