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

// Contents reads the trailer of a pack of this size, in three requests.
func (r *Repository) Contents(ctx context.Context, name format.PackName, size int64) (format.Contents, error) {
	return format.ReadPack(readerAt(func(p []byte, at int64) error {
		return r.store.GetRange(ctx, name.Path(), at, p)
	}), size, r.keys, name)
}

// readerAt reads a whole range of an object, or fails.
type readerAt func(p []byte, at int64) error

func (r readerAt) ReadAt(p []byte, at int64) (int, error) {
	if err := r(p, at); err != nil {
		return 0, err
	}
	return len(p), nil
}
