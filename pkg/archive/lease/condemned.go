package lease

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// rereads bounds how often lists are read again because others ended them meanwhile.
const rereads = 100

// Condemned are objects that a client must not begin to refer to. Those of a nil or zero one were not read: it has all.
type Condemned struct{ keys map[string]bool }

// Has reports whether an object is one of them.
func (c *Condemned) Has(key string) bool { return !c.read() || c.keys[key] }

// Empty reports whether there are none, as nearly always.
func (c *Condemned) Empty() bool { return c.read() && len(c.keys) == 0 }

func (c *Condemned) read() bool { return c != nil && c.keys != nil }

// ReadCondemned reads all lists.
func ReadCondemned(ctx context.Context, store objstore.Store) (*Condemned, error) {
	var last error
	for range rereads {
		lists, err := Lists(ctx, store)
		if err != nil {
			return nil, err
		}
		c := &Condemned{keys: map[string]bool{}}
		last = nil
		for _, list := range lists {
			objects, err := list.Objects(ctx, store)
			if err != nil && !failure.Is(err, failure.NotFound) {
				return nil, err
			}
			if last = err; err != nil {
				break // ended meanwhile: the state has changed
			}
			for _, o := range objects {
				c.keys[o.Key] = true
			}
		}
		if last == nil {
			return c, nil
		}
	}
	return nil, last
}

// Segments reads map segments; a repository does.
type Segments interface {
	Segment(ctx context.Context, name format.SegmentName) (format.Segment, error)
}

// Allows reports whether a client may begin to refer to segments, and so to their packs.
func (c *Condemned) Allows(ctx context.Context, r Segments, names []format.SegmentName) (bool, error) {
	if c.Empty() {
		return true, nil
	}
	for _, name := range names {
		if c.Has(name.Path()) {
			return false, nil
		}
		s, err := r.Segment(ctx, name)
		if err != nil {
			return false, err
		}
		for i := range s {
			if s[i].State == format.Saved && c.Has(s[i].Pack.Name.Path()) {
				return false, nil
			}
		}
	}
	return true, nil
}
