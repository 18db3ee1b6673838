package create

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Plan is what an archive would take.
type Plan struct {
	Base    string
	Volumes []PlannedVolume
	Blocks  int64 // to read
	Seconds float64
	Spent   Spent // at most: as if no block were zero, known or compressible
}

// PlannedVolume is what one volume would take.
type PlannedVolume struct {
	Volume
	Blocks int64
}

// Estimate returns what an archive would take at so many blocks a second, and changes nothing. It lists the blocks.
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
	if err := r.makeWorks(ctx, s); err != nil {
		return err
	}
	blocks, err := r.count(ctx)
	if err != nil {
		return err
	}
	plan.Volumes = nil
	for i := range r.works {
		w := &r.works[i]
		plan.Volumes = append(plan.Volumes, PlannedVolume{
			Volume: Volume{Store: w.Store, Role: w.Role, Snapshot: w.ID, SizeGiB: w.SizeGiB, Compared: w.compared},
			Blocks: blocks.each[i],
		})
	}
	size := r.Repository.Settings().PackSize
	plan.Blocks, plan.Seconds = blocks.total, float64(blocks.total)/rate
	plan.Spent = Spent{
		Lists: r.Blocks.Stats().Lists, Reads: blocks.total, Packs: (blocks.total*volume.BlockSize + size - 1) / size,
		StoredBytes: blocks.total * volume.BlockSize,
	}
	return nil
}

// counts are blocks that are to be read.
type counts struct {
	total int64
	each  []int64 // of r.works
}

// listers is how many snapshots are listed at the same time.
const listers = 4

// count lists the blocks of all volumes.
func (r *run) count(ctx context.Context) (counts, error) {
	c := counts{each: make([]int64, len(r.works))}
	err := parallel.Each(ctx, listers, r.works, func(ctx context.Context, i int, w work) error {
		if w.compared == WithItself {
			return nil
		}
		src, err := w.open(ctx, r.Blocks)
		if err != nil {
			return err
		}
		for b, err := range src.Blocks(ctx, 0, src.Size()/volume.BlockSize) {
			if err != nil {
				return err
			}
			if !b.Absent() {
				c.each[i]++
			}
		}
		return nil
	})
	for _, n := range c.each {
		c.total += n
	}
	return c, err
}
