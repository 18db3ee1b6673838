package create

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// lookEvery is how often a process looks at what others have done.
const lookEvery = 5 * time.Second

// division is what a process needs to know that joins the making of an archive.
type division struct {
	Region   string          `json:"region"` // of the snapshots
	Level    codec.Level     `json:"level"`
	SkipFree SkipFree        `json:"skipFree"`
	Volumes  []dividedVolume `json:"volumes"` // in the order of the manifest
}

type dividedVolume struct {
	Snapshot cluster.SnapshotID `json:"snapshot"`
	Store    cluster.StoreID    `json:"store"`
	Role     cluster.Role       `json:"role"`
	SizeGiB  int64              `json:"sizeGiB"`
	Compared Compared           `json:"comparedWith"`
	Base     format.Volume      `json:"base"`
	Since    cluster.SnapshotID `json:"since,omitempty"`
}

// result is what was made of a unit.
type result struct {
	Segment     format.SegmentName `json:"segment"`
	Stats       volume.Stats       `json:"stats"`
	Seconds     float64            `json:"seconds"`
	FreeUnknown string             `json:"freeUnknown,omitempty"` // of the volume: see Volume
	// Process made it, and has spent so much by then.
	Process string `json:"process"`
	Spent   Spent  `json:"spent"`
}

// divide is the division of the works.
func (r *run) divide() division {
	d := division{Region: r.Region, Level: r.opts.Level, SkipFree: r.opts.SkipFree}
	for i := range r.works {
		w := &r.works[i]
		d.Volumes = append(d.Volumes, dividedVolume{
			Snapshot: w.ID, Store: w.Store, Role: w.Role, SizeGiB: w.SizeGiB,
			Compared: w.compared, Base: w.base, Since: w.since,
		})
	}
	return d
}

// works is what divide divided.
func (d *division) works() []work {
	out := make([]work, 0, len(d.Volumes))
	for _, v := range d.Volumes {
		out = append(out, work{
			Snapshot: manifest.Snapshot{
				ID: v.Snapshot, Store: v.Store, Role: v.Role, VolumeSpec: cluster.VolumeSpec{SizeGiB: v.SizeGiB},
			},
			compared: v.Compared, base: v.Base, since: v.Since,
		})
	}
	return out
}

// units lists them, volume by volume. A volume whose base is of the same snapshot has none.
func (d *division) units() (out []units.ID) {
	for i, v := range d.Volumes {
		for k := range volume.SegmentCount(v.SizeGiB << 30) {
			if v.Compared != WithItself {
				out = append(out, units.ID{Volume: i, Segment: k})
			}
		}
	}
	return out
}

// share divides the volumes among all processes that join, this one too unless it only leads, and waits until they
// have archived them.
func (r *run) share(ctx context.Context, s *phase.Scope) error {
	shared := units.Of(r.Repository, r.choice.Archive)
	d := r.divide()
	if err := shared.Publish(ctx, &d); err != nil {
		return err
	}
	s.Note("to join: tisnap archive join %s", r.choice.Archive)
	all := d.units()
	s.Expect(int64(len(all)), "units")
	kept, stop := r.using.keepLease(ctx, cmp.Or(r.opts.renewEvery, lease.RenewEvery))
	defer stop()
	group, joined := errgroup.WithContext(kept)
	if !r.opts.Lead {
		group.Go(func() error {
			_, err := Join(joined, JoinDeps{Repository: r.Repository, Blocks: r.Blocks, Region: r.Region}, JoinOptions{
				Archive: r.choice.Archive, Name: string(r.opts.Run), Packers: r.opts.Packers,
				lookEvery: r.opts.lookEvery,
			})
			return err
		})
	}
	helped, done := context.WithCancel(joined)
	defer done()
	failed := make(chan error, 1) // of the helpers
	if r.Helpers != nil {
		group.Go(func() error {
			if err := r.Helpers.Work(helped, r.choice.Archive, s.Note); err != nil && helped.Err() == nil {
				failed <- err
			}
			return nil
		})
	}
	results := map[units.ID]result{}
	group.Go(func() error {
		defer done()
		return wait.Until(joined, wait.Every(cmp.Or(r.opts.lookEvery, lookEvery)), func() (bool, error) {
			var broken error
			select {
			case broken = <-failed: // before the look: what they did until then counts
			default:
			}
			err := r.collect(joined, shared, results, func() { s.Advance(1) })
			if err != nil || len(results) < len(all) {
				err = cmp.Or(err, broken)
				return err != nil, err
			}
			if broken != nil {
				s.Note("all units are done, although: %v", broken)
			}
			return true, nil
		})
	})
	err := group.Wait()
	if cause := context.Cause(kept); err != nil && failure.Is(cause, failure.Conflict) {
		return cause // not that a context was cancelled
	}
	if err != nil {
		return err
	}
	r.archived, err = d.assemble(ctx, s, r, results)
	r.result.Volumes, r.result.Spent = r.archived.Volumes, r.archived.Spent
	return err
}

// ended is why there is no plan any more: nil if the archive was committed.
func ended(ctx context.Context, r *repository.Repository, archive string) error {
	_, err := r.Archive(ctx, archive)
	if failure.Is(err, failure.NotFound) {
		return failure.New(failure.Conflict, "share archive", archive,
			"what its processes share was deleted: its lease was broken, and it cannot be committed any more").
			WithHint("run `tisnap archive create` again, which starts from scratch")
	}
	return err
}

// collect adds further results.
func (r *run) collect(ctx context.Context, s *units.Shared, known map[units.ID]result, found func()) error {
	states, open, err := s.List(ctx)
	if err == nil && !open {
		err = ended(ctx, r.Repository, r.choice.Archive)
	}
	if err != nil {
		return err
	}
	for id, state := range states {
		if _, there := known[id]; there || !state.Done {
			continue
		}
		var one result
		if err := s.Result(ctx, id, &one); err != nil {
			return err
		}
		known[id] = one
		found()
	}
	return nil
}

// assemble puts the volumes together from the results of their units.
func (d *division) assemble(
	ctx context.Context, s *phase.Scope, r *run, results map[units.ID]result,
) (out archived, err error) {
	defer s.Part("read maps")()
	spent := map[string]Spent{}
	for i, v := range d.Volumes {
		done := Volume{Store: v.Store, Role: v.Role, Snapshot: v.Snapshot, SizeGiB: v.SizeGiB, Compared: v.Compared}
		made := v.Base
		if v.Compared != WithItself {
			var names []format.SegmentName
			for k := range volume.SegmentCount(v.SizeGiB << 30) {
				of := results[units.ID{Volume: i, Segment: k}]
				names = append(names, of.Segment)
				done.Stats.Add(of.Stats)
				done.Seconds += of.Seconds
				done.FreeUnknown = of.FreeUnknown
				if most := spent[of.Process]; of.Spent.Reads+of.Spent.Packs >= most.Reads+most.Packs {
					spent[of.Process] = of.Spent
				}
			}
			if made, err = volume.Assemble(ctx, r.Repository, v.SizeGiB<<30, names); err != nil {
				return out, err
			}
			made.Role, made.Source = string(v.Role), string(v.Snapshot)
		}
		out.Maps = append(out.Maps, made)
		out.Volumes = append(out.Volumes, done)
	}
	for _, of := range spent {
		out.Spent.add(of)
	}
	return out, nil
}
