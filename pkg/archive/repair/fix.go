package repair

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	// maxCopied bounds the blocks whose new places are known, in about 100 bytes each. One that is looked for in vain
	// is stored twice.
	maxCopied = 1 << 18
	// ownPack is From of a block that is sound where it is, in a pack whose trailer is damaged, or that only a map that
	// was lost referred to.
	ownPack = "its own pack"
)

// copyOf is a block that was copied.
type copyOf struct {
	place format.Place
	from  string
}

// fixing is the work on one segment.
type fixing struct {
	*repairer
	*damaged
	next format.Segment
	left map[int]bool // blocks that are lost still
}

// fix copies the lost blocks of a segment from where they are, and writes it again.
func (w *repairer) fix(ctx context.Context, d *damaged) (err error) {
	m := &fixing{repairer: w, damaged: d, next: slices.Clone(d.places), left: maps.Clone(d.lost)}
	if !d.whole {
		if m.next, err = w.Segment(ctx, d.name); err != nil {
			return err
		}
	}
	for i := range m.left {
		m.known(i)
	}
	err = m.copy(ctx, func(i int) (format.Place, string) { return m.next[i], ownPack })
	for n := 0; n < maxElsewhere && err == nil; n++ {
		err = m.copy(ctx, func(i int) (at format.Place, from string) {
			if found := m.elsewhere[m.next[i].Block.Digest]; n < len(found) {
				at = found[n]
			}
			return at, "pack " + at.Pack.Name.String()
		})
	}
	if err == nil {
		err = m.fromOrigins(ctx)
	}
	if err != nil {
		return err
	}
	for i := range m.left {
		if m.next[i].Pack == (format.PackRef{}) {
			d.places, d.why = nil, "its blocks cannot be read again from "+d.from
			return nil
		}
	}
	if w.DryRun || len(d.repaired) == 0 && !d.whole {
		return nil
	}
	d.next, err = w.PutSegment(ctx, m.next)
	d.written = err == nil
	return err
}

// known takes the place of a block that was copied already.
func (m *fixing) known(i int) bool {
	to, known := m.copied[m.next[i].Block.Digest]
	if known {
		m.next[i], m.repaired[i] = to.place, to.from
		delete(m.left, i)
	}
	return known
}

// put copies a block, whose content is that of its digest.
func (m *fixing) put(i int, from string, add func(format.Origin) (format.Place, error)) (err error) {
	if m.known(i) {
		return nil
	}
	to := copyOf{m.next[i], from}
	if !m.DryRun {
		if to.place, err = add(format.Origin{Index: saturate.To[uint32](m.sites[0].first() + int64(i))}); err != nil {
			return err
		}
	}
	if len(m.copied) >= maxCopied {
		clear(m.copied)
	}
	m.copied[m.next[i].Block.Digest] = to
	m.known(i)
	m.report.Blocks++
	return nil
}

// copy copies the blocks that are lost still from other places in packs.
func (m *fixing) copy(ctx context.Context, place func(i int) (format.Place, string)) error {
	copies, from := make(format.Segment, len(m.next)), map[int]string{}
	for i := range m.left {
		if at, name := place(i); at.Pack != (format.PackRef{}) {
			copies[i], from[i] = at, name
		}
	}
	return m.ReadPacked(ctx, copies, 1, func(_ context.Context, i int, packed, raw []byte, lost error) error {
		want := m.next[i].Block
		if lost != nil || len(raw) != int(want.Raw) || sha256.Sum256(raw) != want.Digest {
			return nil //nolint:nilerr // it may be elsewhere
		}
		return m.put(i, from[i], func(o format.Origin) (format.Place, error) {
			return m.out.AddPacked(o, want.Digest, len(raw), copies[i].Block.Codec, packed)
		})
	})
}

// fromOrigins reads the blocks that are lost still from what archives were read from: those that have this segment, and
// then others of the same volume.
func (m *fixing) fromOrigins(ctx context.Context) error {
	sites := slices.Clone(m.sites)
	of := m.sites[0]
	for _, id := range m.ids {
		a := m.archives[id]
		for _, s := range a.Stores {
			for _, v := range s.Volumes {
				other := site{id, s.ID, v, of.number}
				if a.Cluster == m.archives[of.archive].Cluster && other.volumeOf() == of.volumeOf() {
					sites = append(sites, other)
				}
			}
		}
	}
	for _, s := range sites {
		if len(m.left) == 0 {
			return nil
		}
		for _, o := range m.originsOf(ctx, s) {
			if err := m.fromOrigin(ctx, o, s.first()); err != nil {
				return err
			}
		}
	}
	return nil
}

// originsOf are those of a volume that were not used in vain.
func (w *repairer) originsOf(ctx context.Context, s site) []Origin {
	if w.Outside == nil {
		return nil
	}
	key := fmt.Sprint(s.place())
	if _, known := w.origins[key]; !known {
		w.origins[key] = w.Outside(ctx, w.archives[s.archive], s.store, s.volume)
	}
	return slices.DeleteFunc(slices.Clone(w.origins[key]), func(o Origin) bool { return w.failed[o.Name] })
}

// fail notes that an origin cannot be read, unless the repair ends. It is not used again.
func (w *repairer) fail(ctx context.Context, o Origin, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.failed[o.Name] = true
	w.report.Failed = append(w.report.Failed, fmt.Sprintf("%s: %v", o.Name, err))
	return nil
}

// fromOrigin reads the blocks that are lost still, and takes those whose digest is right.
func (m *fixing) fromOrigin(ctx context.Context, o Origin, first int64) error {
	if len(m.left) == 0 {
		return nil
	}
	blocks := slices.Sorted(maps.Keys(m.left))
	from, to := first+int64(blocks[0]), first+int64(blocks[len(blocks)-1])+1
	return m.readOrigin(ctx, o, from, to, func(index int64) bool { return m.left[int(index-first)] },
		func(index int64, digest format.Digest, raw []byte) error {
			i := int(index - first)
			if want := m.next[i].Block; digest != want.Digest || len(raw) != int(want.Raw) {
				return nil
			}
			return m.put(i, o.Name, func(of format.Origin) (format.Place, error) { return m.out.Add(of, digest, raw) })
		})
}

// readOrigin calls use, in ascending order, for each block of a range that the origin has and want chooses. That it
// cannot be read is no error.
func (w *repairer) readOrigin(
	ctx context.Context, o Origin, from, to int64, want func(int64) bool,
	use func(index int64, digest format.Digest, raw []byte) error,
) error {
	var chunk []volume.Block
	flush := func() (unread, failed error) {
		raws, digests := make([][]byte, len(chunk)), make([]format.Digest, len(chunk))
		err := parallel.Each(ctx, len(chunk), chunk, func(ctx context.Context, i int, b volume.Block) (err error) {
			raws[i] = make([]byte, min(volume.BlockSize, o.Size()-b.Index()*volume.BlockSize))
			digests[i], err = b.Read(ctx, raws[i])
			return err
		})
		if err != nil {
			return err, nil
		}
		for i, b := range chunk {
			if err := use(b.Index(), digests[i], raws[i]); err != nil {
				return nil, err
			}
		}
		chunk = nil
		return nil, nil
	}
	for b, err := range o.Blocks(ctx, from, min(to, format.Blocks(o.Size()))) {
		if err != nil {
			return w.fail(ctx, o, err)
		}
		if b.Absent() || !want(b.Index()) {
			continue
		}
		if chunk = append(chunk, b); len(chunk) < max(1, w.Reads) {
			continue
		}
		if unread, err := flush(); unread != nil {
			return w.fail(ctx, o, unread)
		} else if err != nil {
			return err
		}
	}
	unread, err := flush()
	if unread != nil {
		return w.fail(ctx, o, unread)
	}
	return err
}
