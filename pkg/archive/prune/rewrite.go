package prune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	// commitBytes is how much is written before the archives are replaced: a prune that is killed loses so much work.
	commitBytes = 32 << 30
	// maxMoved bounds the blocks whose new places are known, in about 100 bytes each. One that is looked for in vain is
	// stored twice.
	maxMoved = 1 << 18
)

// Rewriting is what is done about packs that are mostly unused. In a dry run, bytes are estimates.
type Rewriting struct {
	Packs        int64 `json:"packs"`
	ReadBytes    int64 `json:"readBytes"` // of packs
	WrittenBytes int64 `json:"writtenBytes"`
	FreedBytes   int64 `json:"freedBytes"` // about: what of these packs is unused
	// Archives were replaced, and Left not, since others replaced or forgot them meanwhile.
	Archives int `json:"archives"`
	Left     int `json:"left,omitempty"`
	// Damaged blocks stay where they are, with their packs.
	Damaged int64 `json:"damaged,omitempty"`
	// None is why nothing is rewritten, although too much is unused.
	None string `json:"none,omitempty"`
}

// rewriter copies the blocks in use out of chosen packs, under one lease.
type rewriter struct {
	*pruner
	*replace.Archives
	segments []segmentOf
	known    map[format.SegmentName]bool
	renamed  map[format.SegmentName]format.SegmentName // since the last commit
	moved    map[placeInPack]format.Place
	out      *replace.Packs
	next     *marker // of the maps as they are then
	before   int64   // written, at the last commit
}

// volumeOf is what a pack of rewritten blocks is about.
type volumeOf struct {
	store uint64
	role  string
}

// segmentOf is a segment of a volume's map. Those of one part of the volume follow each other.
type segmentOf struct {
	volumeOf
	number int
	name   format.SegmentName
}

type placeInPack struct {
	pack   format.PackName
	offset uint32
}

// rewrite copies what is in use of the packs that are unused most, and replaces the archives. What is left of these
// packs is garbage then. next marks the maps that it reads, as they are after it.
func (p *pruner) rewrite(ctx context.Context, next *marker) (done bool, err error) {
	by := p.shares.choose(p.opts.MaxUnused, &p.report.Rewriting)
	if p.report.Rewriting.Packs == 0 {
		return false, nil
	}
	why, err := p.mayNot(ctx)
	if why != "" {
		p.report.Rewriting = Rewriting{None: why}
	}
	if err != nil || why != "" || p.opts.DryRun {
		return false, err
	}
	packs, err := p.markChosen(ctx, by)
	if err != nil {
		return false, err
	}
	p.report.Rewriting.Packs, p.report.Rewriting.ReadBytes = packs, 0
	w := &rewriter{
		pruner: p, known: map[format.SegmentName]bool{}, renamed: map[format.SegmentName]format.SegmentName{},
		moved: map[placeInPack]format.Place{}, out: replace.NewPacks(p.repository, codec.None), next: next,
	}
	err = replace.Run(ctx, p.repository, p.opts.Owner, w.read, w.run)
	p.report.Rewriting.WrittenBytes = w.out.Written()
	if w.Archives == nil {
		return false, err
	}
	p.report.Rewriting.Archives, p.report.Rewriting.Left = len(w.Replaced), w.Left
	return len(w.Replaced) > 0, err
}

// mayNot is why packs must not be rewritten; "" if they may.
func (p *pruner) mayNot(ctx context.Context) (string, error) {
	if !p.repository.Settings().Storage.ManyWriters() {
		return "the storage ignores conditional writes", nil
	}
	all, err := lease.All(ctx, p.repository.Objects())
	for i := range all {
		if all[i].Rewriter { // both would copy the same
			return fmt.Sprintf("another command does it: %s of %s", all[i].Key, all[i].Owner), nil
		}
	}
	return "", err
}

func (w *rewriter) run(ctx context.Context, archives *replace.Archives) error {
	w.Archives = archives
	slices.SortStableFunc(w.segments, func(a, b segmentOf) int {
		return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.role, b.role), cmp.Compare(a.number, b.number))
	})
	for i, s := range w.segments {
		if i == 0 || s.volumeOf != w.segments[i-1].volumeOf {
			if err := w.out.Flush(); err != nil {
				return err
			}
			if err := w.out.Begin(ctx, s.store, s.role); err != nil {
				return err
			}
		}
		if err := w.segment(ctx, s); err != nil {
			w.out.Abandon()
			return err
		}
		if w.out.Written()-w.before >= commitBytes {
			if err := w.commit(ctx); err != nil {
				return err
			}
			if err := w.out.Begin(ctx, s.store, s.role); err != nil {
				return err
			}
		}
	}
	return w.commit(ctx)
}

// read lists an archive's segments.
func (w *rewriter) read(_ string, a *format.Archive, err error) error {
	if err != nil {
		return err
	}
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			for i, name := range v.Segments {
				if !w.known[name] {
					w.known[name] = true
					w.segments = append(w.segments, segmentOf{volumeOf{s.ID, v.Role}, i, name})
				}
			}
		}
	}
	return nil
}

// segment writes a segment again that refers to chosen packs, and copies the blocks that it has there.
func (w *rewriter) segment(ctx context.Context, of segmentOf) error {
	s, err := w.repository.Segment(ctx, of.name)
	if err != nil {
		return err
	}
	next, copies := slices.Clone(s), make(format.Segment, len(s))
	changed := false
	for i, place := range s {
		if place.State != format.Saved || w.packs[short(place.Pack.Name)]&chosen == 0 {
			continue
		}
		to, known := w.moved[placeInPack{place.Pack.Name, place.Block.Offset}]
		if known && to.Block.Digest == place.Block.Digest {
			next[i], changed = to, true
		} else {
			copies[i] = place
		}
	}
	err = w.repository.ReadPacked(ctx, copies, 1, func(_ context.Context, i int, packed, raw []byte, lost error) error {
		from := copies[i]
		if lost != nil || sha256.Sum256(raw) != from.Block.Digest {
			w.report.Rewriting.Damaged++
			return nil //nolint:nilerr // it is counted, and stays where it is
		}
		origin := format.Origin{Index: saturate.To[uint32](of.number*format.SegmentBlocks + i)}
		to, err := w.out.AddPacked(origin, from.Block.Digest, len(raw), from.Block.Codec, packed)
		if err != nil {
			return err
		}
		w.report.Rewriting.ReadBytes += int64(from.Block.Length)
		if len(w.moved) >= maxMoved {
			clear(w.moved)
		}
		w.moved[placeInPack{from.Pack.Name, from.Block.Offset}] = to
		next[i], changed = to, true
		return nil
	})
	name := of.name
	if err == nil && changed {
		name, err = w.repository.PutSegment(ctx, next)
		w.renamed[of.name] = name
	}
	if err == nil {
		w.next.written(name, next)
	}
	return err
}

// commit replaces the archives whose segments were written again, once all packs are stored.
func (w *rewriter) commit(ctx context.Context) error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	if err := w.Commit(ctx, w.rename); err != nil {
		return err
	}
	w.before = w.out.Written()
	clear(w.renamed)
	return nil
}

// rename puts the new segments in place of the old ones.
func (w *rewriter) rename(_ string, a *format.Archive) (changed bool) {
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			for i, name := range v.Segments {
				if next, is := w.renamed[name]; is {
					v.Segments[i], changed = next, true
				}
			}
		}
	}
	return changed
}
