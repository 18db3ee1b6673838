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

// youngStore is how long after its start a store's resolved ts may still omit regions.
const youngStore = 5 * time.Minute

// maxLockScans is how many regions are scanned for locks concurrently.
const maxLockScans = 64

// CheckLocks proves that no lock may still commit at or below ts. PD's resolved ts does not prove that: it omits peers
// whose locks TiKV has not read yet, for example after a split or a restart (tikv/tikv#15506). known has the regions'
// versions of a while ago: a newer region, or one whose voters are all on just-started stores, is asked for its first
// lock. A found lock, or a region that does not answer, is Unready: take a newer ts then. Call it after PauseStores.
func (h *Hold) CheckLocks(ctx context.Context, ts cluster.TS, known map[cluster.RegionID]uint64) error {
	defer h.parts.start("check locks")()
	h.mu.Lock()
	regions := h.regions
	h.mu.Unlock()
	// If PD does not report when the stores started, all regions are asked.
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
				"the resolved ts %s does not hold there: a transaction that began at %s (%s) is in progress", ts, lock,
				lock.Time()).
				WithHint("wait until the transaction has ended; if its client died, it ends when its lock is read " +
					"after its timeout")
		}
		return nil
	})
}

// firstLock asks the leader that the region had when the regions settled, then its current one if PD knows another: a
// hold does not prevent elections.
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

// unproven returns the regions whose locks the resolved ts may not account for.
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
