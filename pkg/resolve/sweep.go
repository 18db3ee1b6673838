package resolve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// callDeadline bounds one flashback call: a region of 10,000 changed keys takes TiKV 0.4 s, and one whose
// majority is gone never answers.
const callDeadline = 2 * time.Minute

// epoch identifies a region's range: a split or merge raises the version.
type epoch struct {
	id      cluster.RegionID
	version uint64
}

// sweep is one call to every region of the key space, with proof that none was left out.
type sweep struct {
	r    *Resolver
	call func(ctx context.Context, address string, f tikv.Flashback) error
	s    *phase.Scope

	mu    sync.Mutex
	done  map[epoch]bool
	last  map[cluster.RegionID]error // why a region was not done at its last try
	fatal error
	// unproven is why the regions that PD listed last do not cover the key space.
	unproven error
	moved    time.Time
}

// sweep calls every region until each region that PD lists is done and they cover the key space exactly.
// Rounds of retries have no limit but the stall detector's and the step's deadline.
func (r *Resolver) sweep(ctx context.Context, s *phase.Scope, call func(context.Context, string, tikv.Flashback) error) error {
	w := &sweep{r: r, call: call, s: s, done: map[epoch]bool{}, last: map[cluster.RegionID]error{}, moved: time.Now()}
	s.Expect(int64(len(r.plan.Leaders)), "regions")
	for {
		if err := r.takenOver(); err != nil {
			return err
		}
		regions, err := r.pd.Regions(ctx, cluster.KeyRange{})
		if err != nil {
			r.log.Warn("regions cannot be read", zap.Error(err))
		} else {
			left := w.left(regions)
			if len(left) == 0 {
				// PD may list too few regions for a moment after a change of its leader.
				if err = proven(regions); err == nil {
					return nil
				}
				w.unproven = err
			} else {
				w.round(ctx, left)
			}
		}
		if w.fatal != nil {
			return w.fatal
		}
		if w.idle() > r.cfg.Stall {
			return w.stalled("nothing changed for "+r.cfg.Stall.String(), nil)
		}
		if len(w.last) == 0 && err == nil {
			continue // all done: look once more for what the round did not see
		}
		if err := wait.For(ctx, again); err != nil {
			return w.stalled("", err)
		}
		if err := r.resend(ctx); err != nil {
			return err
		}
	}
}

// proven fails unless the regions, all of them done, cover the key space exactly once.
func proven(regions []cluster.Region) error {
	ranges := make([]cluster.KeyRange, 0, len(regions))
	for _, reg := range regions {
		ranges = append(ranges, cluster.KeyRange{Start: reg.Start, End: reg.End})
	}
	return failure.Annotate(cluster.Tile(ranges, 5), "prove flashback", "")
}

func (w *sweep) left(regions []cluster.Region) []cluster.Region {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []cluster.Region
	for _, reg := range regions {
		if !w.done[epoch{reg.ID, reg.Version}] {
			left = append(left, reg)
		}
	}
	return left
}

// round tries the regions once, each store with its own workers, so that a slow store holds up itself alone.
func (w *sweep) round(ctx context.Context, regions []cluster.Region) {
	w.forget(regions)
	byStore := map[cluster.StoreID][]cluster.Region{}
	for _, reg := range regions {
		if w.r.address(reg.Leader.Store) == "" {
			w.last[reg.ID] = fmt.Errorf("PD knows no leader")
			continue
		}
		byStore[reg.Leader.Store] = append(byStore[reg.Leader.Store], reg)
	}
	var wg sync.WaitGroup
	for store, mine := range byStore {
		queue := make(chan cluster.Region, len(mine))
		for _, reg := range mine {
			queue <- reg
		}
		close(queue)
		for range min(w.r.cfg.StoreConcurrency, len(mine)) {
			wg.Go(func() { w.work(ctx, w.r.address(store), queue) })
		}
	}
	wg.Wait()
}

// forget drops the errors of regions that are not tried again: PD does not list them any more.
func (w *sweep) forget(regions []cluster.Region) {
	kept := make(map[cluster.RegionID]error, len(w.last))
	for _, reg := range regions {
		if err := w.last[reg.ID]; err != nil {
			kept[reg.ID] = err
		}
	}
	w.last = kept
}

func (w *sweep) work(ctx context.Context, address string, queue <-chan cluster.Region) {
	for reg := range queue {
		if ctx.Err() != nil || w.idle() > w.r.cfg.Stall {
			return // the queue is buffered: what is left in it is tried in the next round, if there is one
		}
		keys, err := tikv.DecodeRange(cluster.KeyRange{Start: reg.Start, End: reg.End})
		if err == nil {
			err = w.one(ctx, address, tikv.Flashback{
				Region: reg, Keys: keys, Version: w.r.cfg.BackupTS, StartTS: w.r.stamps.Start, CommitTS: w.r.stamps.Commit,
			})
		}
		w.note(reg, err)
	}
}

func (w *sweep) one(ctx context.Context, address string, f tikv.Flashback) error {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	return w.call(ctx, address, f)
}

// idle is how long no region was done.
func (w *sweep) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.moved)
}

func (w *sweep) note(reg cluster.Region, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.last[reg.ID] = err
		w.r.stats.Retries++
		if final(err) && w.fatal == nil {
			w.fatal = failure.Annotate(err, "flash back", "region "+reg.ID.String())
		}
		return
	}
	w.done[epoch{reg.ID, reg.Version}] = true
	delete(w.last, reg.ID)
	w.moved = time.Now()
	w.s.Advance(1)
}

func (w *sweep) stalled(why string, cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var items []string
	for id, err := range w.last {
		items = append(items, fmt.Sprintf("region %s (%v)", id, err))
	}
	if w.unproven != nil && len(items) == 0 {
		return failure.Annotate(w.unproven, "flash back", w.r.cfg.Cluster.String())
	}
	if cause == nil {
		return failure.New(failure.Limited, "flash back", w.r.cfg.Cluster.String(), "%d regions are done and %d are not, %s: %s",
			len(w.done), len(w.last), why, list(items)).
			WithHint("look at the stores' logs for these regions, then run the restore again")
	}
	return failure.New(failure.Limited, "flash back", w.r.cfg.Cluster.String(), "%d regions are done and %d are not: %s: %w",
		len(w.done), len(w.last), list(items), cause)
}
