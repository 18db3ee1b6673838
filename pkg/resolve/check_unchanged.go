package resolve

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// maxChecks is how many regions are checked at the same time: each is read twice as a whole.
const maxChecks = 16

// checkUnchanged takes Config.CheckUnchanged of the regions back all the same, chosen at random, and fails if a row of
// one is another one afterwards. Then no region is taken for unchanged, here and in a run that resumes.
func (r *Resolver) checkUnchanged(ctx context.Context, s *phase.Scope, found []int) error {
	n := min(r.cfg.CheckUnchanged, len(found))
	if n == 0 {
		return nil
	}
	defer s.Part("check unchanged regions")()
	sample := make([]int, len(found))
	copy(sample, found)
	rand.Shuffle(len(sample), func(i, k int) { sample[i], sample[k] = sample[k], sample[i] })
	rows := make([]int64, n)
	err := parallel.Each(ctx, maxChecks, sample[:n], func(ctx context.Context, at, i int) error {
		var err error
		rows[at], err = r.checkRegion(ctx, r.plan.Leaders[i].Keys)
		return err
	})
	if err != nil {
		return failure.Annotate(err, "check unchanged regions", r.cfg.Cluster.String())
	}
	total := int64(0)
	for _, c := range rows {
		total += c
	}
	r.stats.Checked = n
	s.Note("%d unchanged regions were taken back all the same, and none of their %d rows has changed", n, total)
	return nil
}

// checkRegion flashes the region with these keys back and returns how many rows it has. One that changes is Corrupt.
func (r *Resolver) checkRegion(ctx context.Context, keys cluster.KeyRange) (int64, error) {
	before, err := onRegion(ctx, r, keys, func(address string, f tikv.Flashback) (tikv.Digest, error) {
		return r.tikv.Digest(ctx, address, f.Region, r.record.stamps.Start-1) // at the start ts the region may be blocked already
	})
	if err != nil {
		return 0, err
	}
	if err := r.flashAgain(ctx, keys); err != nil {
		return 0, err
	}
	after, err := onRegion(ctx, r, keys, func(address string, f tikv.Flashback) (tikv.Digest, error) {
		return r.tikv.Digest(ctx, address, f.Region, r.record.stamps.Commit)
	})
	if err == nil && after != before {
		err = failure.New(failure.Corrupt, "check unchanged region", keys.String(),
			"its log had not changed since the backup, and a flashback has changed its rows: %d before, %d after", before.Rows, after.Rows).
			WithHint("take every region back: restore or resolve again with --flashback=all, and report this")
	}
	return after.Rows, err
}

// flashAgain makes the flashback of the region with these keys, also where it was made: then no row changes.
func (r *Resolver) flashAgain(ctx context.Context, keys cluster.KeyRange) error {
	_, err := onRegion(ctx, r, keys, func(address string, f tikv.Flashback) (struct{}, error) {
		if err := r.cfg.Fence.Check(ctx); err != nil {
			return struct{}{}, err
		}
		if err := r.tikv.PrepareFlashback(ctx, address, f); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, r.tikv.Flashback(ctx, address, f)
	})
	return err
}

// onRegion makes a call for the region with these keys, where PD knows its leader, until it succeeds. It gives up when
// it has failed for Config.Stall.
func onRegion[T any](ctx context.Context, r *Resolver, keys cluster.KeyRange, call func(address string, f tikv.Flashback) (T, error)) (T, error) {
	var none T
	for begin := time.Now(); ; {
		f, err := r.flashbackOf(ctx, keys)
		if err == nil {
			var got T
			if got, err = call(r.stores.address(f.Region.Leader.Store), f); err == nil {
				return got, nil
			}
		}
		var region *tikv.RegionError
		passes := errors.As(err, &region) || failure.NotYet(err)
		if !passes || time.Since(begin) > r.cfg.Stall || wait.For(ctx, retryInterval) != nil {
			return none, err
		}
		if err := r.resend(ctx); err != nil {
			return none, err
		}
	}
}

// flashbackOf looks the region up that has exactly these keys.
func (r *Resolver) flashbackOf(ctx context.Context, keys cluster.KeyRange) (tikv.Flashback, error) {
	regions, err := r.pd.Regions(ctx, keys)
	if err != nil {
		return tikv.Flashback{}, failure.Annotate(err, "look up region", keys.String())
	}
	if len(regions) != 1 || regions[0].Leader.Store == 0 {
		return tikv.Flashback{}, failure.New(failure.Limited, "look up region", keys.String(), "PD lists %d regions there, or no leader", len(regions))
	}
	raw, err := tikv.DecodeRange(regions[0].Keys)
	return tikv.Flashback{
		Region: regions[0], Keys: raw, Version: r.cfg.BackupTS, StartTS: r.record.stamps.Start, CommitTS: r.record.stamps.Commit,
	}, err
}
