// Package verify finds damage in an archive repository, and names the archives, volumes and blocks that it hits.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Level is how much is read. Each level includes those before it.
type Level string

// The levels. All of them read archives and maps, in which any damage is found.
const (
	Objects Level = "objects" // packs exist and are long enough
	Headers Level = "headers" // the trailer of each pack agrees with the maps
	Data    Level = "data"    // blocks are read
)

// Levels are all, the first being the cheapest.
func Levels() []string { return []string{string(Objects), string(Headers), string(Data)} }

// Options select what is verified.
type Options struct {
	Archives []string // their ids
	Level    Level
	Sample   float64 // the share of the blocks that Data reads, at random: 1 is all
	Reads    int     // ranges of packs at the same time, in the memory of repository.ReadBlocks
	// Against opens what a volume was archived from, to compare the Sample of its blocks with the map; NotFound is one
	// that is gone. nil compares none.
	Against func(ctx context.Context, a *format.Archive, of format.Volume) (volume.Source, error)
	// Progress is called after each segment of a map, with how many are done; nil is none.
	Progress func(done, total int64)
}

// Finding is a damaged object, and what it hits of one volume.
type Finding struct {
	Archive string  `json:"archive"`
	Store   uint64  `json:"store,string,omitempty"` // 0: all of the archive
	Role    string  `json:"role,omitempty"`
	Object  string  `json:"object"`
	Blocks  []Range `json:"blocks,omitempty"` // none: all of the volume
	Problem string  `json:"problem"`
}

// Range are the blocks First to Last of a volume.
type Range struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// String is "5" or "5-9".
func (r Range) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Result is what was read and found.
type Result struct {
	Archives int   `json:"archives"`
	Segments int64 `json:"segments"` // of maps; one that archives share counts for each
	Blocks   int64 `json:"blocks"`   // that were read
	// Compared are the blocks that were read of what was archived, and Gone what could not be: it is not there.
	Compared int64     `json:"compared,omitempty"`
	Gone     []string  `json:"gone,omitempty"`
	Opened   int       `json:"-"` // volumes of which it was there, also if no block of it was read
	Findings []Finding `json:"findings"`
	// Whole are the archives without a finding, by their ids, with the digests of their maps.
	Whole map[string]format.Digest `json:"-"`
}

// verifier verifies archives one after the other.
type verifier struct {
	repository *repository.Repository
	options    Options
	packs      *repository.PackSizes
	hidden     map[string]bool             // keys: see Repository.Hidden
	clean      map[format.SegmentName]bool // whose blocks need not be read again
	lost       map[format.Place]error      // blocks that were read
	total      int64                       // segments
	found      findings
	result     Result
}

// Run verifies archives. Damage is in the result; an error is what kept it from looking.
func Run(ctx context.Context, r *repository.Repository, o Options) (*Result, error) {
	v := &verifier{repository: r, options: o, clean: map[format.SegmentName]bool{}, lost: map[format.Place]error{}}
	v.found.object = map[foundIn]*Finding{}
	archives, err := v.archives(ctx)
	if err != nil {
		return nil, err
	}
	// They are listed last: a prune that rewrites an archive writes some before it can be read.
	if v.packs, err = r.Packs(ctx); err != nil {
		return nil, err
	}
	if v.hidden, err = r.Hidden(ctx); err != nil {
		return nil, err
	}
	for i, a := range archives {
		v.result.Archives++
		if a == nil {
			continue
		}
		if path, _ := format.ArchivePath(o.Archives[i]); v.hidden[path] { // it was read by it
			v.found.add(site{archive: o.Archives[i]}, path, errHidden, nil)
		}
		for _, s := range a.Stores {
			for _, of := range s.Volumes {
				if err := v.volume(ctx, site{o.Archives[i], s.ID, of.Role}, a, of); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := v.spread(ctx, archives); err != nil {
		return nil, err
	}
	v.conclude(archives)
	return &v.result, nil
}

// conclude fills in the findings, and which archives have none.
func (v *verifier) conclude(archives []*format.Archive) {
	v.result.Findings, v.result.Whole = []Finding{}, map[string]format.Digest{}
	for i, a := range archives {
		if a != nil {
			v.result.Whole[v.options.Archives[i]] = a.Maps()
		}
	}
	for _, f := range v.found.all {
		v.result.Findings = append(v.result.Findings, *f)
		delete(v.result.Whole, f.Archive)
	}
}

// errHidden is of an object that can be read nevertheless.
var errHidden = failure.New(failure.Corrupt, "find object", "",
	"someone has deleted or overwritten it; Object Lock has kept it, and it is read")

// archives reads them; nil is one that is damaged.
func (v *verifier) archives(ctx context.Context) ([]*format.Archive, error) {
	archives := make([]*format.Archive, len(v.options.Archives))
	for i, id := range v.options.Archives {
		a, err := v.repository.Archive(ctx, id)
		switch {
		case Damaged(err):
			path, _ := format.ArchivePath(id) // it was read by it
			v.found.add(site{archive: id}, path, err, nil)
		case err != nil:
			return nil, err
		default:
			archives[i] = a
			v.total += segments(a)
		}
	}
	return archives, nil
}

// Damaged reports whether an error is of the object, and not of the way to it. An object of an unknown format version,
// which is Usage, may be a newer one or a damaged one: its problem names the version.
func Damaged(err error) bool {
	return failure.Is(err, failure.Corrupt) || failure.Is(err, failure.Usage) ||
		failure.Is(err, failure.NotFound) && failure.HintOf(err) == ""
}

func segments(a *format.Archive) (n int64) {
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			n += int64(len(v.Segments))
		}
	}
	return n
}

// volume verifies one volume's map, and the blocks of each of its segments.
func (v *verifier) volume(ctx context.Context, at site, a *format.Archive, of format.Volume) error {
	source, err := v.openAgainst(ctx, a, of)
	if err != nil {
		return err
	}
	k := 0
	for part, err := range volume.Parts(ctx, v.repository, of) {
		if err == nil && v.hidden[of.Segments[k].Path()] {
			v.found.add(at, of.Segments[k].Path(), errHidden, &Range{part.First, part.First + part.Blocks - 1})
		}
		switch {
		case Damaged(err) && part.Blocks == 0:
			path, _ := format.ArchivePath(at.archive) // it was read by it
			v.found.add(at, path, err, nil)
			continue
		case Damaged(err):
			v.found.add(at, of.Segments[k].Path(), err, &Range{part.First, part.First + part.Blocks - 1})
		case err != nil:
			return err
		case !v.clean[of.Segments[k]]:
			bad, err := v.segment(ctx, of, part)
			if err != nil {
				return err
			}
			for _, b := range bad {
				v.found.add(at, b.pack.Path(), b.err, &Range{b.index, b.index})
			}
			v.clean[of.Segments[k]] = len(bad) == 0
		}
		if source != nil && err == nil {
			differ, err := v.against(ctx, source, part)
			if err != nil {
				return failure.Annotate(err, "compare archive", of.Source)
			}
			for _, index := range differ {
				v.found.add(at, of.Source, errDiffers, &Range{index, index})
			}
		}
		k++
		v.result.Segments++
		if v.options.Progress != nil {
			v.options.Progress(v.result.Segments, v.total)
		}
	}
	return nil
}

// site is a volume, or without one all of an archive.
type site struct {
	archive string
	store   uint64
	role    string
}

// findings are in the order in which they were found: one for each object and site, and two of one that is hidden and
// damaged.
type findings struct {
	all    []*Finding
	object map[foundIn]*Finding
}

type foundIn struct {
	site
	object string
	hidden bool
}

// add adds blocks, which may be known already; nil is all of the site.
func (f *findings) add(of site, object string, why error, blocks *Range) {
	in := foundIn{of, object, errors.Is(why, errHidden)}
	at := f.object[in]
	if at == nil {
		at = &Finding{
			Archive: of.archive, Store: of.store, Role: of.role, Object: object, Problem: failure.Line(why.Error()),
		}
		f.all, f.object[in] = append(f.all, at), at
	}
	if blocks != nil {
		at.Blocks = join(at.Blocks, *blocks)
	}
}

// join adds a range to others, which are in ascending order and do not touch.
func join(ranges []Range, r Range) []Range {
	i, _ := slices.BinarySearchFunc(ranges, r.First-1, func(of Range, at int64) int { return cmp.Compare(of.Last, at) })
	end := i
	for ; end < len(ranges) && ranges[end].First <= r.Last+1; end++ {
		r.First, r.Last = min(r.First, ranges[end].First), max(r.Last, ranges[end].Last)
	}
	return slices.Replace(ranges, i, end, r)
}
