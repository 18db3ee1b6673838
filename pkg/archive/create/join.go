package create

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

// reclaimAfter is how long another process's claim may stand without a result. A unit takes about a minute at EBS'
// default rate. Doing one twice costs its reads and nothing else.
const reclaimAfter = 15 * time.Minute

// JoinDeps are the dependencies of a process that joins the making of an archive.
type JoinDeps struct {
	Repository *repository.Repository
	Blocks     Blocks
	Region     string // of Blocks
	// Progress, if set, is called with more blocks that were dealt with, concurrently.
	Progress func(more volume.Stats)
}

// JoinOptions are a joining process's part.
type JoinOptions struct {
	Archive string // of a run with Options.Shared
	// Name is the process's among all that join. What another one of this name began and did not finish is done at
	// once: it is taken for dead.
	Name string
	// Index of Workers is where the process begins, so that several begin far from each other.
	Index, Workers int
	Packers        int // 0 is DefaultPackers

	lookEvery, reclaimAfter time.Duration // 0: the constants
}

// Joined is what a process did.
type Joined struct {
	Units int          `json:"units"`
	Stats volume.Stats `json:"stats"`
	Spent Spent        `json:"spent"`
}

// Join archives units of an archive in the making until all are done, by this process and others. Without such a run it
// is NotFound, and a Conflict if the run ended without the archive. A process that is killed or whose context ends has
// done what has a result; all else is done again by others, or by the next Join of its name.
func Join(ctx context.Context, deps JoinDeps, opts JoinOptions) (*Joined, error) {
	opts.Packers = cmp.Or(opts.Packers, DefaultPackers)
	opts.lookEvery, opts.reclaimAfter = cmp.Or(opts.lookEvery, lookEvery), cmp.Or(opts.reclaimAfter, reclaimAfter)
	j := &joiner{
		JoinDeps: deps, opts: opts, shared: units.Of(deps.Repository, opts.Archive), process: rand.Text(),
		own: map[units.ID]bool{}, first: map[units.ID]sighting{},
	}
	var d division
	if err := j.shared.Plan(ctx, &d); err != nil {
		if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
			err = failure.New(failure.NotFound, "join archive", opts.Archive, "no shared run makes it").
				WithHint("give the archive that `tisnap archive create --shared` names")
		}
		return &j.done, err
	}
	if d.Region != deps.Region {
		return &j.done, failure.New(failure.Usage, "join archive", opts.Archive, "its snapshots are in %s", d.Region).
			WithHint("pass --region %s", d.Region)
	}
	j.division, j.works, j.all = d, d.works(), d.units()
	if opts.Workers > 0 {
		from := len(j.all) * opts.Index / opts.Workers
		j.all = slices.Concat(j.all[from:], j.all[:from])
	}
	err := j.run(ctx)
	return &j.done, err
}

// joiner is one process that joined.
type joiner struct {
	JoinDeps
	opts     JoinOptions
	shared   *units.Shared
	process  string
	division division
	works    []work
	all      []units.ID // in the order in which this process looks at them
	archiver *volume.Archiver
	durable  *durable
	at       int // the work that reading is of
	reading  *volume.Task
	own      map[units.ID]bool        // claimed by this process
	before   map[units.ID]units.State // when it began
	first    map[units.ID]sighting    // of claims of others

	mu     sync.Mutex // guards done and failed
	done   Joined
	failed error
}

// sighting is when a version of a claim was seen first.
type sighting struct {
	version objstore.Version
	at      time.Time
}

func (j *joiner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j.durable = &durable{spent: calls(j.Blocks)}
	packing := j.Repository.Pack(ctx, repository.PackOptions{
		Source: source(j.opts.Archive, j.works), Names: format.NewPackNames(), Level: j.division.Level,
		Packers: j.opts.Packers, Way: j.Repository.Way(), Stored: j.durable.stored,
	})
	j.durable.packing = packing
	var err error
	if j.archiver, err = volume.NewArchiver(j.Repository, packing, j.opts.Packers, chunks); err == nil {
		err = wait.Until(ctx, wait.Every(j.opts.lookEvery), func() (bool, error) {
			finished, err := j.pass(ctx)
			return finished || err != nil, err
		})
	}
	if err != nil {
		cancel() // what is uploading is of no use
	}
	return cmp.Or(err, packing.Wait())
}

// pass archives what is left for this process, stores it, and reports whether all units are done.
func (j *joiner) pass(ctx context.Context) (finished bool, err error) {
	var states map[units.ID]units.State
	var listed time.Time
	for {
		fresh := time.Since(listed) >= j.opts.lookEvery
		if fresh {
			var open bool
			if states, open, err = j.shared.List(ctx); err != nil {
				return false, err
			}
			if !open {
				return true, ended(ctx, j.Repository, j.opts.Archive)
			}
			if listed = time.Now(); j.before == nil {
				j.before = maps.Clone(states)
			}
		}
		id, seen := j.unclaimed(states), objstore.Version("")
		if id == nil && !fresh {
			listed = time.Time{}
			continue
		}
		if id == nil {
			id, seen, err = j.abandoned(ctx, states)
		}
		if err != nil {
			return false, err
		}
		if id == nil {
			left := slices.ContainsFunc(j.all, func(id units.ID) bool { return !states[id].Done })
			return !left, cmp.Or(j.archiver.Flush(), j.failure())
		}
		mine, err := j.take(ctx, *id, seen)
		if err := cmp.Or(err, j.failure()); err != nil {
			return false, failure.Annotate(err, "archive", j.works[id.Volume].slot().String())
		}
		states[*id] = units.State{Claimed: "by now"}
		if !mine && !fresh { // what else was claimed meanwhile need not be tried
			listed = time.Time{}
		}
	}
}

// unclaimed is a unit without a claim; nil if there is none.
func (j *joiner) unclaimed(states map[units.ID]units.State) *units.ID {
	i := slices.IndexFunc(j.all, func(id units.ID) bool { return states[id] == units.State{} })
	if i < 0 {
		return nil
	}
	return &j.all[i]
}

// abandoned is a unit whose claim, of this version, is of the process that this one replaces, or has been without a
// result for too long; nil if there is none.
func (j *joiner) abandoned(
	ctx context.Context, states map[units.ID]units.State,
) (*units.ID, objstore.Version, error) {
	for _, id := range j.all {
		s := states[id]
		if s.Done || j.own[id] {
			continue
		}
		if before := j.first[id]; before.version == s.Claimed {
			if time.Since(before.at) >= j.opts.reclaimAfter {
				return &id, s.Claimed, nil
			}
			continue
		}
		if j.before[id].Claimed != s.Claimed { // this process replaces none that claims now
			j.first[id] = sighting{s.Claimed, time.Now()}
			continue
		}
		claimer, version, err := j.shared.Claimer(ctx, id)
		if failure.Is(err, failure.NotFound) {
			continue // the run has ended
		}
		if err != nil {
			return nil, "", err
		}
		if claimer == j.opts.Name {
			return &id, version, nil
		}
		j.first[id] = sighting{version, time.Now()}
	}
	return nil, "", nil
}

// take claims a unit, or replaces the claim that was seen, and archives it unless another process was faster.
func (j *joiner) take(ctx context.Context, id units.ID, seen objstore.Version) (mine bool, err error) {
	if seen == "" {
		mine, err = j.shared.Claim(ctx, id, j.opts.Name)
	} else {
		mine, err = j.shared.Reclaim(ctx, id, j.opts.Name, seen)
	}
	if err != nil || !mine {
		return false, err
	}
	j.own[id] = true
	return true, j.archive(ctx, id)
}

// archive archives a unit. Its result is written once its packs are stored.
func (j *joiner) archive(ctx context.Context, id units.ID) error {
	start := time.Now()
	if err := j.open(ctx, id.Volume); err != nil {
		return err
	}
	task := *j.reading
	task.Wrote = func(name format.SegmentName, of volume.Stats) {
		one := result{
			Segment: name, Stats: of, Seconds: time.Since(start).Seconds(), Process: j.process,
			FreeUnknown: j.works[id.Volume].freeUnknown(),
		}
		j.durable.wrote(func(_ int, spent Spent) {
			one.Spent = spent
			j.finish(id, one, j.shared.Finish(ctx, id, one))
		})
	}
	_, err := j.archiver.ArchiveSegment(ctx, task, id.Segment)
	return err
}

// open begins to read a work, unless the unit before was of it.
func (j *joiner) open(ctx context.Context, i int) (err error) {
	if j.reading != nil && j.at == i {
		return nil
	}
	w := &j.works[i]
	if j.division.SkipFree != SkipOff && w.free == nil {
		if w.free, err = snapshot.Free(ctx, j.Blocks, w.ID); err != nil {
			return failure.Annotate(err, "read file system", w.slot().String())
		}
	}
	task, err := w.toArchive(ctx, j.Blocks, j.division.SkipFree)
	if err != nil {
		return err
	}
	task.Number, task.Progress = saturate.To[uint16](i), j.Progress
	if j.reading != nil {
		j.works[j.at].free = nil // it may be large
	}
	j.at, j.reading = i, &task
	return nil
}

func (j *joiner) finish(id units.ID, r result, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.failed = cmp.Or(j.failed, failure.Annotate(err, "finish unit", id.String()))
		return
	}
	j.done.Units++
	j.done.Stats.Add(r.Stats)
	j.done.Spent = r.Spent
}

// failure is why a result could not be written.
func (j *joiner) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}
