// Package repair repairs damaged archives: a block that is lost is taken from wherever one of its digest still is, and
// a map that is lost is made again where the archive's proof of it shows that it is the same. It deletes nothing.
package repair

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Overtaken is the problem of damage whose archive others replaced or forgot while it was repaired: run it again.
const Overtaken = "its archive was replaced or forgotten meanwhile"

// commitBytes is how much is written before the archives are replaced: a repair that is killed loses so much work.
const commitBytes = 32 << 30

// Options select what is repaired, and from what.
type Options struct {
	verify.Options // how damage is looked for: of these archives, and of all that share their maps
	// Outside returns what a volume of an archive was read from, as far as it is still there.
	Outside func(ctx context.Context, a *format.Archive, store uint64, v format.Volume) []Origin
	Owner   string // of the lease, for people
	// DryRun changes nothing. It reads all that would be repaired from where it would be taken.
	DryRun bool
}

// Origin is what may have the content of a volume's blocks, at the same places.
type Origin struct {
	Name string // for people
	volume.Source
	// Free returns which blocks an archive leaves out; nil if they are unknown.
	Free func(ctx context.Context) (func(index int64) bool, error)
}

// Damage is what became of a finding, or of a part of it.
type Damage struct {
	verify.Finding
	Cluster string `json:"cluster,omitempty"`
	From    string `json:"from,omitempty"` // what it was repaired from
}

// Report is what was found and done, as far as it got, also on error.
type Report struct {
	Found    *verify.Result `json:"found"`
	Repaired []Damage       `json:"repaired"` // in a dry run: that would be
	Left     []Damage       `json:"left"`     // that cannot be repaired, and why
	Blocks   int64          `json:"blocks"`   // that were copied
	Bytes    int64          `json:"bytes"`    // of packs that were written
	Replaced int            `json:"replaced"`
	// Failed are origins that could not be read, and why.
	Failed []string `json:"failed,omitempty"`
}

// repairer is one repair.
type repairer struct {
	*repository.Repository
	Options
	report   *Report
	archives map[string]*format.Archive
	ids      []string // of archives
	out      *replace.Packs
	damaged  map[format.SegmentName]*damaged
	order    []*damaged
	// elsewhere is where blocks with the digests of lost ones are, and copied where they were copied to.
	elsewhere map[format.Digest][]format.Place
	copied    map[format.Digest]copyOf
	counts    map[place]format.Counts // of volumes with maps that were made again
	origins   map[string][]Origin
	failed    map[string]bool // origins, by name
}

// place is a volume's place in the repository.
type place struct {
	archive string
	store   uint64
	role    string
}

// Run looks for damage, and repairs what it can: it writes new packs and maps, and replaces the archives that need
// them, by compare-and-swap. Run it again after an error. A repository whose storage ignores conditional writes is
// Unready.
func Run(ctx context.Context, r *repository.Repository, o Options) (*Report, error) {
	w := &repairer{
		Repository: r, Options: o, archives: map[string]*format.Archive{}, out: replace.NewPacks(r, codec.Auto),
		damaged: map[format.SegmentName]*damaged{}, elsewhere: map[format.Digest][]format.Place{},
		copied: map[format.Digest]copyOf{}, counts: map[place]format.Counts{}, origins: map[string][]Origin{},
		failed: map[string]bool{},
		report: &Report{Repaired: []Damage{}, Left: []Damage{}},
	}
	err := w.start(ctx)
	w.report.Bytes = w.out.Written()
	return w.report, err
}

func (w *repairer) start(ctx context.Context) error {
	if w.DryRun {
		err := replace.Each(ctx, w.Repository, func(id string, a *format.Archive, _ objstore.Version, err error) error {
			return w.read(id, a, err)
		})
		if err != nil {
			return err
		}
		return w.run(ctx, nil)
	}
	if !w.Settings().Storage.ManyWriters() {
		return failure.New(failure.Unready, "repair archives", w.Objects().URL(),
			"the storage ignores conditional writes, so no archive can be replaced").
			WithHint("archive the backups again while their snapshots exist")
	}
	return replace.Run(ctx, w.Repository, w.Owner, w.read, w.run)
}

// read notes an archive. One that is damaged is a finding of the verification.
func (w *repairer) read(id string, a *format.Archive, err error) error {
	switch {
	case verify.Damaged(err):
	case err != nil:
		return err
	default:
		w.archives[id] = a
		w.ids = append(w.ids, id)
	}
	return nil
}

// run repairs. archives is nil in a dry run.
func (w *repairer) run(ctx context.Context, archives *replace.Archives) (err error) {
	if w.report.Found, err = verify.Run(ctx, w.Repository, w.Options.Options); err != nil {
		return err
	}
	w.sort()
	if len(w.order) > 0 {
		err = w.fixAll(ctx, archives)
	}
	w.conclude(archives)
	return err
}

func (w *repairer) fixAll(ctx context.Context, archives *replace.Archives) error {
	defer w.out.Abandon()
	if err := w.rebuild(ctx); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	var before int64
	var begun place
	for _, d := range w.order {
		if d.whole && d.places == nil {
			continue
		}
		if of := d.sites[0]; !w.DryRun && (w.out.Packer == nil || of.volumeOf() != begun) {
			begun = of.volumeOf()
			if err := w.out.Flush(); err != nil {
				return err
			}
			if err := w.out.Begin(ctx, of.store, of.volume.Role); err != nil {
				return err
			}
		}
		if err := w.fix(ctx, d); err != nil {
			return err
		}
		if w.out.Written()-before >= commitBytes {
			if err := w.commit(ctx, archives); err != nil {
				return err
			}
			before = w.out.Written()
		}
	}
	return w.commit(ctx, archives)
}

// commit replaces the archives whose maps were written again, once all packs are stored.
func (w *repairer) commit(ctx context.Context, archives *replace.Archives) error {
	if w.DryRun {
		return nil
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	err := archives.Commit(ctx, w.change)
	w.report.Replaced = len(archives.Replaced)
	for _, d := range w.order {
		d.committed = d.committed || d.written && err == nil
	}
	return err
}

// change puts the new maps in place of the damaged ones.
func (w *repairer) change(id string, a *format.Archive) (changed bool) {
	for _, s := range a.Stores {
		for i := range s.Volumes {
			v := &s.Volumes[i]
			of := false
			for k, name := range v.Segments {
				if d := w.damaged[name]; d != nil && d.written {
					v.Segments[k], of = d.next, true
				}
			}
			if counts, is := w.counts[place{id, s.ID, v.Role}]; is && of {
				v.Counts = counts
			}
			changed = changed || of
		}
	}
	return changed
}

// look finds where else blocks with the digests of lost ones are: in the packs of all maps that can be read.
func (w *repairer) look(ctx context.Context) error {
	for _, d := range w.order {
		places := d.places
		if !d.whole {
			var err error
			if places, err = w.Segment(ctx, d.name); err != nil {
				return err
			}
		}
		for i := range d.lost {
			if places != nil {
				w.elsewhere[places[i].Block.Digest] = nil
			}
		}
	}
	seen := map[format.SegmentName]bool{}
	for _, id := range w.ids {
		for _, s := range w.archives[id].Stores {
			for _, v := range s.Volumes {
				for _, name := range v.Segments {
					if seen[name] {
						continue
					}
					seen[name] = true
					if err := w.lookIn(ctx, name); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (w *repairer) lookIn(ctx context.Context, name format.SegmentName) error {
	s, err := w.segment(ctx, name)
	d := w.damaged[name]
	for i, at := range s {
		found, wanted := w.elsewhere[at.Block.Digest]
		if !wanted || at.Pack == (format.PackRef{}) || d != nil && !d.whole && d.lost[i] {
			continue
		}
		if len(found) < maxElsewhere && !slices.Contains(found, at) {
			w.elsewhere[at.Block.Digest] = append(found, at)
		}
	}
	return err
}

// maxElsewhere is how many places of a block are tried.
const maxElsewhere = 4
