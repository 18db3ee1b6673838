package hold

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// youngStore is how long after its start a store may still leave regions out of its resolved ts.
const youngStore = 5 * time.Minute

// maxLockScans is how many regions are scanned for a lock at the same time.
const maxLockScans = 64

// CheckLocks proves that nothing that may commit at or below ts is still locked, where the resolved ts that PD gives
// does not: TiKV leaves a peer out of it whose locks it has not read yet, as after a split or a restart
// (tikv/tikv#15506). known are the regions by version as they were a while ago: one that is newer, or whose voters are
// all on stores that have just started, is asked for its first lock. A lock that is found, or a region that does not
// answer, is Unready: take a newer ts then. Call it after PauseStores.
func (h *Hold) CheckLocks(ctx context.Context, ts cluster.TS, known map[cluster.RegionID]uint64) error {
	defer h.parts.start("check locks")()
	h.mu.Lock()
	regions := h.regions
	h.mu.Unlock()
	// A PD that does not say when the stores were started is no reason to fail: all regions are asked then.
	if stores, err := h.pd.Stores(ctx); err == nil {
		regions = unproven(regions, known, stores)
	}
	return parallel.Each(ctx, maxLockScans, regions, func(ctx context.Context, _ int, r cluster.Region) error {
		ctx, cancel := context.WithTimeout(ctx, h.callLimit())
		defer cancel()
		lock, err := h.firstLock(ctx, r, ts)
		switch {
		case err != nil:
			return failure.New(failure.Unready, "check locks", "region "+r.ID.String(), "%v", err)
		case lock != 0:
			return failure.New(failure.Unready, "check locks", "region "+r.ID.String(),
				"the resolved ts %s is not resolved there: a transaction that began at %s (%s) is under way", ts, lock,
				lock.Time()).
				WithHint("wait until the transaction has ended; one whose client died ends when its lock is read " +
					"after its time-out")
		}
		return nil
	})
}

// firstLock asks the region's leader, as it was when the regions had settled, and its present one if PD knows another
// since: a hold does not end elections.
func (h *Hold) firstLock(ctx context.Context, r cluster.Region, ts cluster.TS) (cluster.TS, error) {
	lock, err := h.tikv.FirstLock(ctx, h.address(r.Leader.Store), r, ts)
	var refused *tikv.RegionError
	if !errors.As(err, &refused) {
		return lock, err
	}
	now, pdErr := h.pd.Regions(ctx, r.Keys)
	if pdErr != nil || len(now) != 1 || now[0].ID != r.ID || now[0].Version != r.Version ||
		now[0].Leader.Store == r.Leader.Store {
		return lock, err
	}
	return h.tikv.FirstLock(ctx, h.address(now[0].Leader.Store), now[0], ts)
}

// unproven are the regions whose locks the resolved ts may not know.
func unproven(regions []cluster.Region, known map[cluster.RegionID]uint64, stores []pd.Store) []cluster.Region {
	young := map[cluster.StoreID]bool{}
	for _, s := range stores {
		young[s.ID] = time.Since(s.StartedAt) < youngStore
	}
	var out []cluster.Region
	for _, r := range regions {
		if version, ok := known[r.ID]; !ok || version != r.Version || allYoung(r, young) {
			out = append(out, r)
		}
	}
	return out
}

func allYoung(r cluster.Region, young map[cluster.StoreID]bool) bool {
	for _, p := range r.Peers {
		if !p.Learner && !young[p.Store] {
			return false
		}
	}
	return true
}

func (h *Hold) address(id cluster.StoreID) string {
	for _, s := range h.stores {
		if s.target.ID == id {
			return s.target.Address
		}
	}
	return ""
}
