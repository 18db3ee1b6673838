package resolve

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// maxChecks is how many regions are checked concurrently: each is read twice in full.
const maxChecks = 16

// regionCalls calls one region at its leader by PD, outside a sweep.
type regionCalls struct {
	cfg    *settings
	pd     pd.Members
	tikv   regionCaller
	calls  *recovery
	stamps Stamps
}

// regionCaller is what is called on a store.
type regionCaller interface {
	tikv.Flashbacker
	tikv.Marker
}

// checkUnchanged flashes back Config.CheckUnchanged of the regions anyway, chosen at random, and fails if a row of one
// of them changes. Then no region counts as unchanged, neither here nor in a run that resumes. It returns how many
// regions did not change.
func (c *regionCalls) checkUnchanged(ctx context.Context, s *phase.Scope, found []cluster.KeyRange) (int, error) {
	n := min(c.cfg.CheckUnchanged, len(found))
	if n == 0 {
		return 0, nil
	}
	defer s.Part("check unchanged regions")()
	sample := slices.Clone(found)
	rand.Shuffle(len(sample), func(i, k int) { sample[i], sample[k] = sample[k], sample[i] })
	var total atomic.Int64
	err := parallel.Each(ctx, maxChecks, sample[:n], func(ctx context.Context, _ int, keys cluster.KeyRange) error {
		rows, err := c.checkRegion(ctx, keys)
		total.Add(rows)
		return err
	})
	if err != nil {
		return 0, failure.Annotate(err, "check unchanged regions", c.cfg.Cluster.String())
	}
	s.Note("%d unchanged regions were flashed back anyway, and none of their %d rows changed", n, total.Load())
	return n, nil
}

// checkRegion flashes back the region with these keys and returns its number of rows. It returns Corrupt if one
// changes.
func (c *regionCalls) checkRegion(ctx context.Context, keys cluster.KeyRange) (int64, error) {
	before, err := onRegion(ctx, c, keys, func(address string, f tikv.Flashback) (tikv.Digest, error) {
		// at the start ts the region may already be blocked
		return c.tikv.Digest(ctx, address, f.Region, c.stamps.Start-1)
	})
	if err != nil {
		return 0, err
	}
	if err := c.flashAgain(ctx, keys); err != nil {
		return 0, err
	}
	after, err := onRegion(ctx, c, keys, func(address string, f tikv.Flashback) (tikv.Digest, error) {
		return c.tikv.Digest(ctx, address, f.Region, c.stamps.Commit)
	})
	if err == nil && after != before {
		err = failure.New(failure.Corrupt, "check unchanged region", keys.String(),
			"its log had not changed since the backup, and a flashback has changed its rows: %d before, %d after",
			before.Rows, after.Rows).
			WithHint("flash back every region: restore or resolve again with --flashback=all, and report this")
	}
	return after.Rows, err
}

// flashAgain flashes back the region with these keys. If that was done before, no row changes.
func (c *regionCalls) flashAgain(ctx context.Context, keys cluster.KeyRange) error {
	_, err := onRegion(ctx, c, keys, func(address string, f tikv.Flashback) (struct{}, error) {
		if err := c.cfg.Fence.Check(ctx); err != nil {
			return struct{}{}, err
		}
		if err := c.tikv.PrepareFlashback(ctx, address, f); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.tikv.Flashback(ctx, address, f)
	})
	return err
}

// onRegion retries a call to the leader, by PD, of the region with these keys until it succeeds, or has failed for
// Config.Stall.
func onRegion[T any](
	ctx context.Context, c *regionCalls, keys cluster.KeyRange, call func(address string, f tikv.Flashback) (T, error),
) (T, error) {
	var none T
	for begin := time.Now(); ; {
		f, err := c.flashbackOf(ctx, keys)
		if err == nil {
			var got T
			if got, err = call(c.calls.stores.address(f.Region.Leader.Store), f); err == nil {
				return got, nil
			}
		}
		var region *tikv.RegionError
		passes := errors.As(err, &region) || failure.NotYet(err)
		if !passes || time.Since(begin) > c.cfg.Stall || wait.For(ctx, retryInterval) != nil {
			return none, err
		}
		if err := c.calls.resend(ctx); err != nil {
			return none, err
		}
	}
}

// flashbackOf looks up the region with exactly these keys.
func (c *regionCalls) flashbackOf(ctx context.Context, keys cluster.KeyRange) (tikv.Flashback, error) {
	regions, err := c.pd.Regions(ctx, keys)
	if err != nil {
		return tikv.Flashback{}, failure.Annotate(err, "look up region", keys.String())
	}
	if len(regions) != 1 || regions[0].Leader.Store == 0 {
		return tikv.Flashback{}, failure.New(failure.Limited, "look up region", keys.String(),
			"PD lists %d regions there, or no leader", len(regions))
	}
	raw, err := tikv.DecodeRange(regions[0].Keys)
	return tikv.Flashback{
		Region: regions[0], Keys: raw, Version: c.cfg.BackupTS, StartTS: c.stamps.Start, CommitTS: c.stamps.Commit,
	}, err
}
