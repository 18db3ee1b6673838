package importer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// The phases of an import.
const (
	phasePrepare = "prepare"
	phaseRead    = "archive blocks"
	phaseCommit  = "commit"
)

const (
	// readDeadline bounds the reading of all volumes. It only keeps a run from staying for ever.
	readDeadline = 60 * 24 * time.Hour
	lockTTL      = 10 * time.Minute
	itIsTheLock  = "it is the lock"
)

// run is one import in progress.
type run struct {
	Deps
	opts    Options
	fence   *runlock.Fence
	works   []work
	lease   *lease.Lease  // nil before the run has one
	shared  *units.Shared // its record
	earlier earlier
	base    string // to look for: see Options.Base
	pace    *pace
	made    []format.Volume
	result  Result
}

// work is one volume to archive.
type work struct {
	Source
	file   *volume.File  // nil of standard input
	source volume.Source // nil of standard input until it is read
	base   format.Volume // in the base archive; without one it has no segments
	free   *ext4.Map     // nil if free blocks are not asked for
}

func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	return &run{
		Deps: deps, opts: opts, base: opts.Base, pace: newPace(opts.Rate),
		fence: runlock.NewFence(deps.Repository.Objects(), lockOf(opts.Name), runlock.NewOwner(opts.Run, "import")),
	}
}

// lockOf is the lock of a name. No namespace of a cluster has a dot.
func lockOf(name string) cluster.Name { return cluster.Name{Namespace: "archive.import", Name: name} }

func (r *run) execute(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.result.Started = time.Now().UTC()
	engine := phase.New(phase.Config{
		Run: r.opts.Run, Journal: phase.NoJournal{}, Sink: r.Sink, Log: r.Log, Fence: r.fence,
	})
	err := engine.Run(ctx, r.steps(cancel))
	r.result.Timings, r.result.Finished = engine.Timings(), time.Now().UTC()
	if lost := r.fence.Loss(); err != nil && lost != nil && !failure.Is(err, failure.Conflict) {
		err = failure.New(failure.Conflict, "import", r.opts.Name, "%w; before that was noticed: %w", lost, err)
	}
	freed := r.fence.Release(ctx)
	if freed != nil && err == nil { // it is freed by its silence, too
		r.Log.Warn("the lock is not free yet", zap.Error(freed))
		freed = nil
	}
	return errors.Join(err, freed, r.close())
}

// close closes the files and devices.
func (r *run) close() error {
	var errs []error
	for i := range r.works {
		if file := r.works[i].file; file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

func (r *run) steps(lost func(error)) []phase.Step {
	return []phase.Step{
		{Phase: phasePrepare, Name: "open", Deadline: 10 * time.Minute, Do: r.open, ReadOnly: true},
		{
			Phase: phasePrepare, Name: "lock", Deadline: 3*time.Minute + max(0, r.opts.LockWait),
			Do: func(ctx context.Context, s *phase.Scope) error { return r.lock(ctx, s, lost) }, Unfenced: itIsTheLock,
		},
		{Phase: phasePrepare, Name: "choose", Deadline: 10 * time.Minute, Do: r.choose, Retry: true},
		{Phase: phaseRead, Name: "read", Deadline: readDeadline, Do: r.read},
		{Phase: phaseCommit, Name: "commit", Deadline: lockTTL, Do: r.commit, Retry: true, ReadsLock: true},
	}
}

func (r *run) lock(ctx context.Context, s *phase.Scope, lost func(error)) error {
	return r.fence.Take(ctx, lockTTL, runlock.Notify{
		Wait: r.opts.LockWait, Lost: lost,
		Watching: func(held *runlock.Record) { s.Note("%s", held.Watching()) },
	})
}

// open opens all files and devices.
func (r *run) open(ctx context.Context, s *phase.Scope) error {
	for _, from := range r.opts.Sources {
		w := work{Source: from}
		if from.Path == Stdin {
			r.works = append(r.works, w)
			continue
		}
		file, err := volume.OpenFile(from.Path)
		if err != nil {
			return err
		}
		w.file, w.source = file, file
		r.works = append(r.works, w)
		if err := r.findFree(ctx, s, &r.works[len(r.works)-1]); err != nil {
			return err
		}
	}
	return nil
}

// findFree finds the blocks that a volume's file system does not use.
func (r *run) findFree(ctx context.Context, s *phase.Scope, w *work) (err error) {
	if !r.opts.SkipFree && !r.opts.AuditFree {
		return nil
	}
	defer s.Part("find free blocks")()
	if w.free, err = ext4.Read(ctx, w.file.From, w.file.Bytes); err != nil {
		return failure.Annotate(err, "read file system", w.Path)
	}
	if why := w.free.Reason(); why != "" {
		s.Note("%s: no block is left out as free: %s", w.Source, why)
	}
	return nil
}

// taskOf describes how a volume is archived, without what earlier processes did.
func (r *run) taskOf(w *work) volume.Task {
	t := volume.Task{
		Source: w.source, Base: volume.Base{Segments: w.base.Segments, Proofs: w.base.Proofs}, Audit: r.opts.AuditFree,
	}
	if w.free != nil {
		t.Free = w.free.Free
	}
	return t
}

// about is the volume in results.
func (w *work) about() Volume {
	v := Volume{Source: w.Source, Compared: len(w.base.Segments) > 0}
	if w.source != nil {
		v.Size = w.source.Size()
	}
	if w.free != nil {
		v.FreeUnknown = w.free.Reason()
	}
	return v
}

func (r *run) estimate(ctx context.Context) error {
	step := func(name string, do func(context.Context, *phase.Scope) error) phase.Step {
		return phase.Step{Phase: phasePrepare, Name: name, Deadline: time.Hour, Do: do, ReadOnly: true}
	}
	err := phase.New(phase.Config{
		Run: r.opts.Run, Journal: phase.NoJournal{}, Sink: r.Sink, Log: r.Log,
	}).Run(ctx, []phase.Step{step("open", r.open), step("estimate", r.count)})
	return cmp.Or(err, r.close())
}

// count counts what would be read.
func (r *run) count(ctx context.Context, s *phase.Scope) error {
	if err := r.findBases(ctx, s); err != nil {
		return err
	}
	for i := range r.works {
		w := &r.works[i]
		v := w.about()
		if w.file != nil {
			var err error
			if v.Stats, err = volume.Count(ctx, r.Repository, r.taskOf(w)); err != nil {
				return failure.Annotate(err, "count blocks", w.Path)
			}
		}
		r.result.Volumes = append(r.result.Volumes, v)
	}
	return nil
}
