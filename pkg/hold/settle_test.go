package hold_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// neighbours are the first region of the rig and the second, and the store that leads the first.
func (r *rig) neighbours(t *testing.T) (leader *tikvtest.Store, source, target uint64) {
	t.Helper()
	for _, s := range r.stores {
		for _, p := range s.Peers() {
			switch {
			case len(p.Region.StartKey) == 0:
				source = p.Region.Id
				if p.Serving {
					leader = s
				}
			case slices.EqualFunc(r.stores[0].Peers()[0].Region.EndKey, p.Region.StartKey, func(a, b byte) bool { return a == b }):
				target = p.Region.Id
			}
		}
	}
	require.NotNil(t, leader)
	return leader, source, target
}

// regionCounts are how many peers each store has.
func (r *rig) regionCounts() []int {
	var counts []int
	for _, s := range r.stores {
		counts = append(counts, len(s.Peers()))
	}
	return counts
}

// A merge that was proposed just before the lease is called pending only once PrepareMerge is applied, and is completed
// under the lease: the hold is not taken before that.
func TestPauseStores_MergeProposedJustBeforeTheLease_IsCompletedBeforeTheHoldIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	leader, source, target := r.neighbours(t)
	h := r.newHold(t)
	ctx := within(t, 40*time.Second)
	require.NoError(t, h.Connect(ctx))
	require.NoError(t, h.PauseScheduling(ctx))
	r.fault(t, fault.Rule{Point: "tikv." + itoa(leader.ID()) + ".Apply.PrepareMerge", Position: fault.Slow, Delay: 500 * time.Millisecond})
	require.NoError(t, leader.Merge(ctx, source, target))
	require.NoError(t, h.PauseStores(ctx))
	require.Empty(t, r.faults.Unreached())
	require.Equal(t, []int{3, 3, 3}, r.regionCounts(), "of four regions one has been merged, on every store")
	for _, s := range r.stores {
		for _, p := range s.Peers() {
			require.False(t, p.Merging, "region %d is cut in the middle of a merge", p.Region.Id)
		}
	}
	broken, err := h.Release(ctx)
	require.NoError(t, broken)
	require.NoError(t, err)
}

// A merge that cannot be completed bounds how long the cluster is held, and is named.
func TestPauseStores_MergeThatNeverEnds_FailsWithinHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	leader, source, target := r.neighbours(t)
	r.fault(t, fault.Rule{Point: "tikv." + itoa(leader.ID()) + ".CheckMerge", Code: "Unavailable", Times: -1})
	// Half of it is what the leases and the look at the regions may take on a busy machine.
	h := r.newHold(t, func(c *hold.Config) { c.MaxHold = 24 * time.Second })
	ctx := within(t, 90*time.Second)
	require.NoError(t, h.Connect(ctx))
	require.NoError(t, leader.Merge(ctx, source, target))
	err := h.PauseStores(ctx)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "region "+itoa(source))
	require.ErrorContains(t, err, "not within 12s, half of --max-hold 24s")
	require.ErrorIs(t, err, hold.ErrBudget, "it is not tried again")
	r.faults.Clear()
	_, err = h.Release(ctx)
	require.NoError(t, err)
}

// A split that was proposed just before the lease leaves children without a leader, which PD does not know yet.
func TestPauseStores_SplitProposedJustBeforeTheLease_IsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	leader, _, _ := r.neighbours(t)
	h := r.newHold(t)
	ctx := within(t, 40*time.Second)
	require.NoError(t, h.Connect(ctx))
	r.fault(t, fault.Rule{Point: "tikv." + itoa(leader.ID()) + ".Apply.BatchSplit", Position: fault.Slow, Delay: 500 * time.Millisecond})
	r.fault(t, fault.Rule{Point: "pd.RegionHeartbeat", Position: fault.Stall, Times: -1})
	split := make(chan error, 1)
	go func() { split <- tikvtest.SplitAt(ctx, r.stores, []byte("a")) }()
	require.Eventually(t, func() bool { return r.faults.Calls("tikv."+itoa(leader.ID())+".Apply.BatchSplit") > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, h.PauseStores(ctx))
	require.Len(t, leader.Peers(), 5)
	require.NoError(t, tikvtest.AwaitLeaders(within(t, time.Second), r.stores...), "all led, children included")
	r.faults.Clear()
	require.NoError(t, <-split)
	_, err := h.Release(ctx)
	require.NoError(t, err)
}

// answering are stores whose answers about the regions that they lead are changed.
type answering struct {
	tikv.Holder

	change func(call int, led []cluster.Region) (changed []cluster.Region, pending []cluster.RegionID)

	mu    sync.Mutex
	calls map[string]int
	log   []string
}

func (s *answering) OpenLease(ctx context.Context, address string) (tikv.Lease, error) {
	l, err := s.Holder.OpenLease(ctx, address)
	return &loggedLease{l, s}, err
}

func (s *answering) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, call)
}

func (s *answering) LedRegions(ctx context.Context, address string) ([]cluster.Region, []cluster.RegionID, error) {
	led, pending, err := s.Holder.LedRegions(ctx, address)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "led regions")
	s.calls[address]++
	if err == nil && s.change != nil {
		led, pending = s.change(s.calls[address], led)
	}
	return led, pending, err
}

// loggedLease notes the calls over a stream.
type loggedLease struct {
	tikv.Lease

	by *answering
}

func (l *loggedLease) Renew(ctx context.Context, ttl time.Duration) (bool, error) {
	valid, err := l.Lease.Renew(ctx, ttl)
	l.by.note("lease")
	return valid, err
}

func (l *loggedLease) WaitApply(ctx context.Context, regions []cluster.Region) (map[cluster.RegionID]error, error) {
	l.by.note(fmt.Sprint("wait apply at version ", regions[0].Version))
	failed, err := l.Lease.WaitApply(ctx, regions)
	for id, reason := range failed { // the epoch is compared at receipt: it was right then
		l.by.note(reason.Error())
		delete(failed, id)
	}
	return failed, err
}

// pauseAnswering takes the stores' part of a hold from stores that answer with what change returns.
func (r *rig) pauseAnswering(t *testing.T, change func(call int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID)) (*answering, error) {
	t.Helper()
	stores := &answering{Holder: r.tikv, change: change, calls: map[string]int{}}
	r.holder = stores
	h := r.newHold(t, func(c *hold.Config) { c.MaxHold, c.Lease = 4*time.Second, time.Minute })
	ctx := within(t, 40*time.Second)
	require.NoError(t, h.Connect(ctx))
	err := h.PauseStores(ctx)
	_, releaseErr := h.Release(ctx)
	require.NoError(t, releaseErr)
	return stores, err
}

// The order is what proves the hold: all leases, then every region applies its log, and after that no region is pending.
func TestPauseStores_OrderOfCalls_LeasesThenApplyThenPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stores, err := r.pauseAnswering(t, nil)
	require.NoError(t, err)
	var leases, lastApply, lastLed int
	for i, call := range stores.log {
		switch call {
		case "lease":
			leases++
		case "wait apply at version 2":
			require.Equal(t, 3, leases, "a log is applied before all stores hold: %v", stores.log)
			lastApply = i
		case "led regions":
			require.Equal(t, 3, leases, "a store is asked before all stores hold: %v", stores.log)
			lastLed = i
		}
	}
	require.Positive(t, lastApply)
	require.Greater(t, lastLed, lastApply, "what is pending is asked for after the logs were applied: %v", stores.log)
}

func TestPauseStores_ARegionStillPending_IsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stores, err := r.pauseAnswering(t, func(call int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID) {
		if call < 5 && len(led) > 0 {
			return led, []cluster.RegionID{led[0].ID}
		}
		return led, nil
	})
	require.NoError(t, err)
	for address, calls := range stores.calls {
		require.GreaterOrEqual(t, calls, 5, address)
	}
}

// A region whose epoch has changed since it applied its log applies it again.
func TestPauseStores_VersionChangedAfterApply_IsAppliedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stores, err := r.pauseAnswering(t, func(call int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID) {
		if call == 1 { // as the store saw itself before
			for i := range led {
				led[i].Version--
			}
		}
		return led, nil
	})
	require.NoError(t, err)
	old, current := 0, 0
	for _, call := range stores.log {
		switch call {
		case "wait apply at version 1":
			old++
		case "wait apply at version 2":
			current++
		}
	}
	require.Equal(t, 3, old, "%v", stores.log)
	require.Equal(t, 3, current, "%v", stores.log)
}

func TestPauseStores_WhatDoesNotSettle_IsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func([]cluster.Region) []cluster.Region
		message string
	}{
		{"a voter on a store that is not held", func(led []cluster.Region) []cluster.Region {
			for i := range led {
				led[i].Peers = append(slices.Clone(led[i].Peers), cluster.Peer{ID: 99, Store: 77})
			}
			return led
		}, "one is on store 77, which is not held"},
		{"a region without a leader", func(led []cluster.Region) []cluster.Region {
			return slices.DeleteFunc(led, func(r cluster.Region) bool { return len(r.Keys.Start) == 0 })
		}, "hole"},
		{"two leaders of one range", func(led []cluster.Region) []cluster.Region {
			for i := range led {
				led[i].Keys.Start = nil
			}
			return led
		}, "overlap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := newRig(t).pauseAnswering(t, func(_ int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID) {
				return c.change(led), nil
			})
			require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.message)
		})
	}
}

// What the first round found is reported, too, when the time ends in the second half of that round.
func TestPauseStores_TimeEndsInTheFirstRound_NamesWhatItFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Position: fault.Stall, Times: -1})
	_, err := r.pauseAnswering(t, func(_ int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID) {
		return slices.DeleteFunc(led, func(r cluster.Region) bool { return len(r.Keys.Start) == 0 }), nil
	})
	require.ErrorIs(t, err, hold.ErrBudget)
	require.ErrorContains(t, err, "hole")
}

func TestPauseStores_LearnerElsewhere_IsNoReason(t *testing.T) {
	t.Parallel()
	_, err := newRig(t).pauseAnswering(t, func(_ int, led []cluster.Region) ([]cluster.Region, []cluster.RegionID) {
		for i := range led {
			led[i].Peers = append(slices.Clone(led[i].Peers), cluster.Peer{ID: 99, Store: 77, Learner: true})
		}
		return led, nil
	})
	require.NoError(t, err)
}
