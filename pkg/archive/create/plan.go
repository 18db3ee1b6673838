package create

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Plan is what an archive would take.
type Plan struct {
	Base    string
	Volumes []PlannedVolume
	Blocks  int64 // to read
	Free    int64 // that are not read
	Seconds float64
	Spent   Spent // at most: as if no block were zero, known or compressible
}

// PlannedVolume is what one volume would take. Its Stats have Read and Free alone.
type PlannedVolume struct{ Volume }

// Estimate returns what an archive would take at so many blocks per second, and changes nothing. It lists the blocks.
func Estimate(ctx context.Context, deps Deps, opts Options, rate float64) (*Plan, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	r := newRun(deps, opts)
	plan := &Plan{}
	err := r.runner.Check(ctx, r.preflightStep(), phase.Step{
		Phase: phasePrepare, Name: "estimate", Deadline: time.Hour, ReadOnly: true, Retry: true,
		Do: func(ctx context.Context, s *phase.Scope) error { return r.estimate(ctx, s, plan, rate) },
	})
	return plan, err
}

func (r *run) estimate(ctx context.Context, s *phase.Scope, plan *Plan, rate float64) error {
	base, err := r.findBase(ctx, s)
	if err != nil {
		return err
	}
	r.choice.Base, plan.Base = base, base
	condemned, err := r.condemned(ctx)
	if err != nil {
		return err
	}
	if err := r.makeWorks(ctx, s, condemned); err != nil {
		return err
	}
	if err := r.findFree(ctx, s); err != nil {
		return err
	}
	counted, err := r.count(ctx, true)
	if err != nil {
		return err
	}
	plan.Volumes = nil
	var sum volume.Stats
	for i := range r.works {
		w := &r.works[i]
		plan.Volumes = append(plan.Volumes, PlannedVolume{Volume{
			Store: w.Store, Role: w.Role, Snapshot: w.ID, SizeGiB: w.SizeGiB, Compared: w.compared,
			FreeUnknown: w.freeUnknown(), Stats: counted[i],
		}})
		sum.Add(counted[i])
	}
	size := r.Repository.Settings().PackSize
	calls := r.Blocks.Stats()
	plan.Blocks, plan.Free, plan.Seconds = sum.Read, sum.Free, float64(sum.Read)/rate
	plan.Spent = Spent{
		Lists: calls.Lists, Reads: calls.Reads + sum.Read, Packs: (sum.Read*volume.BlockSize + size - 1) / size,
		StoredBytes: sum.Read * volume.BlockSize,
	}
	return nil
}

// mappers is how many file systems are looked at at the same time: most take less than 64 MiB of memory.
const mappers = 2

// findFree finds the blocks that the volumes' file systems do not use. It reads few blocks, and does so again when a
// run is resumed.
func (r *run) findFree(ctx context.Context, s *phase.Scope) error {
	if r.opts.SkipFree == SkipOff {
		return nil
	}
	defer s.Part("find free blocks")()
	return parallel.Each(ctx, mappers, r.works, func(ctx context.Context, i int, _ work) (err error) {
		w := &r.works[i]
		if w.compared == WithItself {
			return nil
		}
		if w.free, err = snapshot.Free(ctx, r.Blocks, w.ID); err != nil {
			return failure.Annotate(err, "read file system", w.slot().String())
		}
		if why := w.free.Reason(); why != "" {
			s.Note("%s: no block is left out as free: %s", w.slot(), why)
			s.Log.Info("no block is left out as free", zap.Stringer("volume", w.slot()), zap.String("reason", why))
		}
		return nil
	})
}

// listers is how many snapshots are listed at the same time.
const listers = 4

// count lists the blocks of all volumes, and returns how many of each would be read, and would not as free. Unless it
// is to be exact, no map is read: blocks come on top that the base left out as free and that are used now without a
// change.
func (r *run) count(ctx context.Context, exact bool) ([]volume.Stats, error) {
	counted := make([]volume.Stats, len(r.works))
	err := parallel.Each(ctx, listers, r.works, func(ctx context.Context, i int, w work) error {
		if w.compared == WithItself {
			return nil
		}
		task, err := w.toArchive(ctx, r.Blocks, r.opts.SkipFree)
		if err != nil {
			return err
		}
		if !exact {
			task.Base.Segments = nil
		}
		counted[i], err = volume.Count(ctx, r.Repository, task)
		return err
	})
	return counted, err
}
