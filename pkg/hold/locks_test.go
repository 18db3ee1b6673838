package hold_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// lockedStores note which regions are asked for a lock, and answer with one of the region that is locked.
type lockedStores struct {
	tikv.Holder

	mu     sync.Mutex
	asked  map[cluster.RegionID]cluster.TS
	locked map[cluster.RegionID]cluster.TS
	fail   error
	moved  func(cluster.Region) cluster.Region // what a region is, for PD and the stores, since the hold settled
	leader map[cluster.RegionID]cluster.StoreID
}

func (s *lockedStores) FirstLock(_ context.Context, _ string, r cluster.Region, ts cluster.TS) (cluster.TS, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved != nil && r.Leader.Store != s.leader[r.ID] {
		return 0, &tikv.RegionError{Message: "not leader"}
	}
	s.asked[r.ID] = ts
	return s.locked[r.ID], s.fail
}

// startedPD is a PD whose stores were started at the time that started returns.
type startedPD struct {
	hold.PD

	started func(id cluster.StoreID) time.Time
	stores  *lockedStores
}

func (p startedPD) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	regions, err := p.PD.Regions(ctx, keys)
	p.stores.mu.Lock()
	defer p.stores.mu.Unlock()
	for i := range regions {
		if p.stores.moved != nil {
			regions[i] = p.stores.moved(regions[i])
			p.stores.leader[regions[i].ID] = regions[i].Leader.Store
		}
	}
	return regions, err
}

func (p startedPD) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	for i := range stores {
		stores[i].StartedAt = p.started(stores[i].ID)
	}
	return stores, err
}

// locksChecked is a hold of a rig whose stores were started at these times, and the versions of its regions.
func locksChecked(t *testing.T, started func(cluster.StoreID) time.Time) (*rig, *lockedStores, *hold.Hold, map[cluster.RegionID]uint64) {
	t.Helper()
	r := newRig(t)
	stores := &lockedStores{Holder: r.tikv, asked: map[cluster.RegionID]cluster.TS{}, locked: map[cluster.RegionID]cluster.TS{}, leader: map[cluster.RegionID]cluster.StoreID{}}
	cfg := hold.Config{Cluster: name, Run: "run-1", Lease: time.Minute, MaxHold: time.Minute}
	for _, s := range r.stores {
		cfg.Stores = append(cfg.Stores, hold.Target{ID: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	h, err := hold.New(cfg, startedPD{r.pd, started, stores}, stores)
	require.NoError(t, err)
	ctx := within(t, 30*time.Second)
	require.NoError(t, h.Connect(ctx))
	require.NoError(t, h.PauseStores(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, _ = h.Release(ctx)
	})
	known := map[cluster.RegionID]uint64{}
	for _, p := range r.stores[0].Peers() {
		known[cluster.RegionID(p.Region.Id)] = p.Region.RegionEpoch.Version
	}
	require.Len(t, known, 4)
	return r, stores, h, known
}

func longAgo(cluster.StoreID) time.Time { return time.Now().Add(-time.Hour) }

func TestCheckLocks_RegionsAsBefore_AreNotAsked(t *testing.T) {
	t.Parallel()
	_, stores, h, known := locksChecked(t, longAgo)
	require.NoError(t, h.CheckLocks(within(t, 5*time.Second), 100, known))
	require.Empty(t, stores.asked)
	var parts []string
	for _, p := range h.Parts() {
		parts = append(parts, p.Name)
	}
	require.Contains(t, parts, "check locks")
}

// A region that is new, or was split or merged, may be left out of the resolved ts.
func TestCheckLocks_NewerRegion_IsAskedForALock(t *testing.T) {
	t.Parallel()
	_, stores, h, known := locksChecked(t, longAgo)
	var ids []cluster.RegionID
	for id := range known {
		ids = append(ids, id)
	}
	delete(known, ids[0]) // it did not exist
	known[ids[1]]--       // it was larger
	require.NoError(t, h.CheckLocks(within(t, 5*time.Second), 100, known))
	require.Equal(t, map[cluster.RegionID]cluster.TS{ids[0]: 100, ids[1]: 100}, stores.asked)
	stores.locked[ids[1]] = 77
	err := h.CheckLocks(within(t, 5*time.Second), 100, known)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "region "+ids[1].String())
	require.ErrorContains(t, err, "77")
	require.NotEmpty(t, failure.HintOf(err))
}

func TestCheckLocks_AllVotersJustStarted_AreAsked(t *testing.T) {
	t.Parallel()
	_, stores, h, known := locksChecked(t, func(cluster.StoreID) time.Time { return time.Now().Add(-time.Minute) })
	require.NoError(t, h.CheckLocks(within(t, 5*time.Second), 100, known))
	require.Len(t, stores.asked, 4)
}

func TestCheckLocks_OneStoreJustStarted_IsNoReason(t *testing.T) {
	t.Parallel()
	_, stores, h, known := locksChecked(t, func(id cluster.StoreID) time.Time {
		if id%2 == 0 {
			return time.Now()
		}
		return longAgo(id)
	})
	require.NoError(t, h.CheckLocks(within(t, 5*time.Second), 100, known))
	require.Empty(t, stores.asked, "another store counts these regions in its resolved ts")
}

func TestCheckLocks_RegionDoesNotAnswer_IsNotProven(t *testing.T) {
	t.Parallel()
	_, stores, h, _ := locksChecked(t, longAgo)
	stores.fail = &tikv.RegionError{Message: "not leader"}
	require.Equal(t, failure.Unready, failure.KindOf(h.CheckLocks(within(t, 5*time.Second), 100, nil)))
}

// A hold does not end elections, and the leaders are those of when the regions had settled.
func TestCheckLocks_RegionHasAnotherLeaderSince_AsksThatOne(t *testing.T) {
	t.Parallel()
	_, stores, h, _ := locksChecked(t, longAgo)
	stores.moved = func(r cluster.Region) cluster.Region {
		for _, p := range r.Peers {
			if p.Store != r.Leader.Store {
				r.Leader = p
			}
		}
		return r
	}
	require.NoError(t, h.CheckLocks(within(t, 5*time.Second), 100, nil))
	require.Len(t, stores.asked, 4)
	stores.locked = map[cluster.RegionID]cluster.TS{}
	for id := range stores.asked {
		stores.locked[id] = 77
	}
	require.ErrorContains(t, h.CheckLocks(within(t, 5*time.Second), 100, nil), "77")
}

func TestCoversTS_GCHeldAboveTheBackupTS_IsAConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.newHold(t)
	ctx := within(t, 20*time.Second)
	ts, err := r.pd.Now(ctx)
	require.NoError(t, err)
	require.Equal(t, failure.Conflict, failure.KindOf(h.CoversTS(ts)), "GC is not held at all")
	require.NoError(t, h.PauseGC(ctx, ts))
	require.NoError(t, h.CoversTS(ts))
	require.NoError(t, h.CoversTS(ts+1))
	require.Equal(t, failure.Conflict, failure.KindOf(h.CoversTS(ts-1)))
	_, err = h.Release(ctx)
	require.NoError(t, err)
}
