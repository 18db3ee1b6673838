package repair

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	// trailers is From of a map that was made from them.
	trailers = "the trailers of packs"
	unproven = "nothing that is left makes the same map again"
	noProof  = "its archive has no proof of its maps"
)

// known is what a pack has of a block of a lost map.
type known struct {
	archive string
	place   format.Place
}

// lostMap is a segment that is lost.
type lostMap struct {
	*damaged
	proof format.Digest
	known map[int][]known // by block
}

// rebuild makes maps again that are lost, each only if it has the proof of the one that was. It takes the trailers of
// packs, what other archives' maps have at the same place, and then what the volume was read from.
func (w *repairer) rebuild(ctx context.Context) error {
	var all []*lostMap
	for _, d := range w.order {
		if !d.whole {
			continue
		}
		d.why = noProof
		for _, s := range d.sites {
			if len(s.volume.Proofs) > 0 && d.why == noProof {
				d.why = unproven
				all = append(all, &lostMap{damaged: d, proof: s.volume.Proofs[s.number], known: map[int][]known{}})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *lostMap) int { return w.created(a).Compare(w.created(b)) }) // bases first
	if err := w.readTrailers(ctx, all); err != nil {
		return err
	}
	for _, m := range all {
		if err := w.fromTrailers(ctx, m); err != nil {
			return err
		}
		m.known = nil
		for _, s := range m.sites {
			for _, o := range w.originsOf(ctx, s) {
				if err := w.fromImage(ctx, m, s, o); err != nil {
					return err
				}
			}
		}
	}
	return w.recount(ctx)
}

// created is when the first archive that has a segment was made.
func (w *repairer) created(m *lostMap) (first time.Time) {
	for i, s := range m.sites {
		if at := w.archives[s.archive].Created; i == 0 || at.Before(first) {
			first = at
		}
	}
	return first
}

// blocks is how many blocks the segment is about.
func (m *lostMap) blocks() int {
	s := m.sites[0]
	return int(min(format.SegmentBlocks, format.Blocks(s.volume.Size)-s.first()))
}

// readTrailers collects what all packs have of the lost maps. One that cannot be read has nothing.
func (w *repairer) readTrailers(ctx context.Context, all []*lostMap) error {
	packs, err := w.Packs(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	names := slices.Collect(packs.Names())
	return parallel.Each(ctx, max(1, w.Reads), names, func(ctx context.Context, _ int, name format.PackName) error {
		size, _ := packs.Of(name)
		c, err := w.Contents(ctx, name, size)
		if verify.Damaged(err) || replace.Gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range all {
			m.note(c)
		}
		return nil
	})
}

// note keeps what a pack has.
func (m *lostMap) note(c format.Contents) {
	of := m.sites[0]
	for _, e := range c.Blocks {
		if int(e.Volume) >= len(c.Source.Volumes) {
			continue
		}
		v, i := c.Source.Volumes[e.Volume], int64(e.Index)-of.first()
		if v.Store == of.store && v.Role == of.volume.Role && i >= 0 && i < int64(m.blocks()) {
			m.known[int(i)] = append(m.known[int(i)], known{
				c.Source.Archive, format.Place{State: format.Saved, Pack: c.Ref, Block: e.Block},
			})
		}
	}
}

// fromTrailers tries what the map can have been: what the packs of an archive have, and for the rest what others have
// or another archive's map has there.
func (w *repairer) fromTrailers(ctx context.Context, m *lostMap) error {
	m.try(nil)
	tried := map[format.SegmentName]bool{m.name: true}
	for _, id := range w.ids {
		of := m.sites[0].place()
		of.archive = id
		v, found := w.volume(of)
		k := m.sites[0].number
		if !found || k >= len(v.Segments) || tried[v.Segments[k]] || m.places != nil {
			continue
		}
		tried[v.Segments[k]] = true
		near, err := w.segment(ctx, v.Segments[k])
		if err != nil {
			return err
		}
		if near != nil {
			m.try(near)
		}
	}
	return nil
}

// try takes the first map that has the proof: of each archive, in each order.
func (m *lostMap) try(near format.Segment) {
	for _, s := range m.sites {
		own := func(i int, _ format.Place) (at format.Place) {
			for _, o := range m.known[i] {
				if o.archive == s.archive {
					at = o.place
				}
			}
			return at
		}
		neighbor := func(i int, _ format.Place) (at format.Place) {
			if i < len(near) && near[i].State == format.Saved {
				at = near[i]
			}
			return at
		}
		for _, order := range [][]func(int, format.Place) format.Place{
			{own, neighbor, m.other}, {own, neighbor}, {own, m.other, neighbor},
		} {
			candidate := make(format.Segment, m.blocks())
			for i := range candidate {
				candidate[i].State = format.Free
				for _, has := range order {
					if at := has(i, neighbor(i, format.Place{})); at.State == format.Saved {
						candidate[i] = at
						break
					}
				}
			}
			if m.accept(candidate, trailers) {
				return
			}
		}
	}
}

// other is the only content that packs have of a block, besides what is near.
func (m *lostMap) other(i int, near format.Place) (at format.Place) {
	for _, o := range m.known[i] {
		switch {
		case o.place.Block.Digest == near.Block.Digest:
		case at.State == format.Saved && at.Block.Digest != o.place.Block.Digest:
			return format.Place{}
		default:
			at = o.place
		}
	}
	return at
}

// accept takes a candidate that has the proof of the map that is lost. What is not saved in it counts as free, so that
// a later archive does not rely on it.
func (m *lostMap) accept(candidate format.Segment, from string) bool {
	if m.places == nil && candidate.Proof() == m.proof {
		m.places, m.from, m.lost = candidate, from, map[int]bool{}
		for i := range candidate {
			if candidate[i].State == format.Saved {
				m.lost[i] = true // in the new map it is in a new pack
			}
		}
	}
	return m.places != nil
}

// fromImage makes the map from what the volume was read from.
func (w *repairer) fromImage(ctx context.Context, m *lostMap, s site, o Origin) error {
	if m.places != nil || o.Size() != s.volume.Size {
		return nil
	}
	candidate := make(format.Segment, m.blocks())
	for i := range candidate {
		candidate[i].State = format.Free
	}
	err := w.readOrigin(ctx, o, s.first(), s.first()+int64(len(candidate)), func(int64) bool { return true },
		func(index int64, digest format.Digest, raw []byte) error {
			if !volume.IsZero(raw) {
				candidate[index-s.first()] = format.Place{
					State: format.Saved, Block: format.Block{Digest: digest, Raw: saturate.To[uint32](len(raw))},
				}
			}
			return nil
		})
	if err != nil || w.failed[o.Name] || m.accept(candidate, o.Name) || o.Free == nil {
		return err
	}
	free, err := o.Free(ctx) // the archive left out what the file system did not use
	if err != nil {
		return w.fail(ctx, o, err)
	}
	base := s.place()
	base.archive = w.archives[s.archive].Base
	kept, err := w.segmentAt(ctx, base, s.number)
	for i := range candidate {
		if free(s.first()+int64(i)) && !(i < len(kept) && kept[i].State == format.Saved &&
			kept[i].Block.Digest == candidate[i].Block.Digest) { // unless it had not changed since the base
			candidate[i] = format.Place{State: format.Free}
		}
	}
	m.accept(candidate, o.Name)
	return err
}

// recount counts the blocks of the volumes with maps that were made again.
func (w *repairer) recount(ctx context.Context) error {
	for _, d := range w.order {
		if !d.whole || d.places == nil {
			continue
		}
		for _, s := range d.sites {
			var counts format.Counts
			whole := true
			for _, name := range s.volume.Segments {
				places, err := w.segment(ctx, name)
				if err != nil {
					return err
				}
				whole = whole && places != nil
				counts = counts.Plus(places)
			}
			if whole {
				w.counts[s.place()] = counts
			}
		}
	}
	return nil
}
