package repair

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/verify"
)

// damaged is a segment of a map that is lost, or that has lost blocks. Archives may share it.
type damaged struct {
	name  format.SegmentName
	sites []site
	// places are those of the map, or of the one that was made again; nil without one. Blocks that are only known by
	// their digests are in no pack.
	places   format.Segment
	lost     map[int]bool // blocks, by their number in the segment
	whole    bool         // the map is lost
	why      string       // it cannot be made again
	from     string       // what it was made from
	repaired map[int]string
	written  bool
	next     format.SegmentName
	// committed is whether all archives have it that were not left.
	committed bool
}

// site is where a segment is used.
type site struct {
	archive string
	store   uint64
	volume  format.Volume
	number  int
}

func (s site) place() place { return place{s.archive, s.store, s.volume.Role} }

// volumeOf is the volume, of whatever archive.
func (s site) volumeOf() place { return place{"", s.store, s.volume.Role} }

// first is the number of the segment's first block in the volume.
func (s site) first() int64 { return int64(s.number) * format.SegmentBlocks }

// sort makes the damaged segments of the findings, in the order of their volumes.
func (w *repairer) sort() {
	for _, f := range w.report.Found.Findings {
		w.each(f, func(name format.SegmentName, index int64) {
			d := w.damaged[name]
			if d == nil {
				d = &damaged{name: name, lost: map[int]bool{}, repaired: map[int]string{}}
				w.damaged[name] = d
				w.order = append(w.order, d)
			}
			d.lost[int(index%format.SegmentBlocks)] = true
			d.whole = d.whole || strings.HasPrefix(f.Object, format.SegmentPrefix)
		})
	}
	for _, id := range w.ids {
		for _, s := range w.archives[id].Stores {
			for _, v := range s.Volumes {
				for k, name := range v.Segments {
					if d := w.damaged[name]; d != nil {
						d.sites = append(d.sites, site{id, s.ID, v, k})
					}
				}
			}
		}
	}
	w.order = slices.DeleteFunc(w.order, func(d *damaged) bool { return len(d.sites) == 0 })
	slices.SortStableFunc(w.order, func(a, b *damaged) int {
		x, y := a.sites[0], b.sites[0]
		return cmp.Or(cmp.Compare(x.store, y.store), cmp.Compare(x.volume.Role, y.volume.Role), x.number-y.number)
	})
}

// each calls use for each block of a finding.
func (w *repairer) each(f verify.Finding, use func(name format.SegmentName, index int64)) {
	v, ok := w.volume(place{f.Archive, f.Store, f.Role})
	if !ok {
		return
	}
	for _, r := range f.Blocks {
		for index := r.First; index <= r.Last; index++ {
			use(v.Segments[index/format.SegmentBlocks], index)
		}
	}
}

// volume is the one of a place, if its archive can be read, and has it.
func (w *repairer) volume(of place) (format.Volume, bool) {
	if a := w.archives[of.archive]; a != nil {
		for _, s := range a.Stores {
			for _, v := range s.Volumes {
				if s.ID == of.store && v.Role == of.role {
					return v, true
				}
			}
		}
	}
	return format.Volume{}, false
}

// segment is a segment as it is, or as it was made again; nil if it is lost.
func (w *repairer) segment(ctx context.Context, name format.SegmentName) (format.Segment, error) {
	if d := w.damaged[name]; d != nil && d.whole {
		return d.places, nil
	}
	s, err := w.Segment(ctx, name)
	if verify.Damaged(err) {
		return nil, nil
	}
	return s, err
}

// segmentAt is the one of a volume with this number; nil without one.
func (w *repairer) segmentAt(ctx context.Context, of place, number int) (format.Segment, error) {
	v, found := w.volume(of)
	if !found || number >= len(v.Segments) {
		return nil, nil
	}
	return w.segment(ctx, v.Segments[number])
}

// conclude sorts the findings' blocks by what became of them.
func (w *repairer) conclude(archives *replace.Archives) {
	for _, f := range w.report.Found.Findings {
		of := Damage{Finding: f}
		if a := w.archives[f.Archive]; a != nil {
			of.Cluster = a.Cluster
		}
		if len(f.Blocks) == 0 { // an archive, or a map that as a whole is another one
			w.report.Left = append(w.report.Left, of)
			continue
		}
		parts := map[[2]string]*Damage{}
		var order []*Damage
		w.each(f, func(name format.SegmentName, index int64) {
			d := w.damaged[name]
			from, why := d.fate(int(index%format.SegmentBlocks), f)
			if from != "" && archives != nil && !(d.committed && archives.Replaced[f.Archive]) {
				from, why = "", Overtaken
			}
			part := parts[[2]string{from, why}]
			if part == nil {
				next := of
				next.Blocks, next.From, next.Problem = nil, from, why
				part = &next
				parts[[2]string{from, why}] = part
				order = append(order, part)
			}
			part.Blocks = extend(part.Blocks, index)
		})
		if len(order) == 0 { // its archive was not there when archives were read
			w.report.Left = append(w.report.Left, of)
		}
		for _, part := range order {
			if part.From != "" {
				w.report.Repaired = append(w.report.Repaired, *part)
			} else {
				w.report.Left = append(w.report.Left, *part)
			}
		}
	}
}

// fate is what a block was repaired from, or "", and why not.
func (d *damaged) fate(block int, f verify.Finding) (from, why string) {
	switch from := d.repaired[block]; {
	case d.whole && d.places == nil:
		return "", f.Problem + "; " + d.why
	case d.whole && (d.places[block].State != format.Saved || from == ownPack):
		return d.from, f.Problem
	case d.whole && from == "":
		return "", "its map is made again, and its pack is damaged, too"
	default:
		return from, f.Problem
	}
}

func extend(blocks []verify.Range, index int64) []verify.Range {
	if n := len(blocks); n > 0 && blocks[n-1].Last+1 == index {
		blocks[n-1].Last = index
		return blocks
	}
	return append(blocks, verify.Range{First: index, Last: index})
}
