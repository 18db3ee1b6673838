package repository

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// PackSizes are the sizes of packs, in 20 bytes of memory each.
type PackSizes struct{ byFirst [256][]packSize } // in the order of their names

type packSize struct {
	name format.PackName
	size uint32
}

// Of returns the size of a pack; false if there is none of this name.
func (p *PackSizes) Of(name format.PackName) (size int64, exists bool) {
	packs := p.byFirst[name[0]]
	i, exists := slices.BinarySearchFunc(packs, name, func(p packSize, name format.PackName) int {
		return bytes.Compare(p.name[:], name[:])
	})
	if !exists {
		return 0, false
	}
	return int64(packs[i].size), true
}

// Names are those of all packs, in order.
func (p *PackSizes) Names() iter.Seq[format.PackName] {
	return func(yield func(format.PackName) bool) {
		for _, packs := range p.byFirst {
			for _, pack := range packs {
				if !yield(pack.name) {
					return
				}
			}
		}
	}
}

// packLists is how many lists are read at the same time.
const packLists = 8

// Packs lists the sizes of all packs, a 256th of them at a time. Objects that cannot be one are left out.
func (r *Repository) Packs(ctx context.Context) (*PackSizes, error) {
	out := &PackSizes{}
	prefixes := make([]string, len(out.byFirst))
	for i := range prefixes {
		prefixes[i] = fmt.Sprintf("%s%02x", format.PackPrefix, i)
	}
	err := parallel.Each(ctx, packLists, prefixes, func(ctx context.Context, i int, prefix string) error {
		objects, err := r.store.List(ctx, prefix)
		if err != nil {
			return failure.Annotate(err, "list packs", r.store.URL())
		}
		packs := make([]packSize, 0, len(objects))
		for _, o := range objects { // which are in order
			if name, err := format.ParsePackPath(o.Key); err == nil {
				packs = append(packs, packSize{name, saturate.To[uint32](o.Size)})
			}
		}
		out.byFirst[i] = packs
		return nil
	})
	return out, err
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
