package marks_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// storesOf answers for stores by their address.
type storesOf struct {
	answer func(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error)

	mu         sync.Mutex
	open, most map[string]int
	calls      atomic.Int64
}

func (s *storesOf) RaftState(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	s.calls.Add(1)
	s.mu.Lock()
	s.open[address]++
	s.most[address] = max(s.most[address], s.open[address])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open[address]--
		s.mu.Unlock()
	}()
	return s.answer(ctx, address, region)
}

func answering(f func(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error)) *storesOf {
	return &storesOf{answer: f, open: map[string]int{}, most: map[string]int{}}
}

func settled(r cluster.RegionID) (tikv.RaftState, error) {
	return tikv.RaftState{Term: 6, Last: uint64(r), Commit: uint64(r), Version: 1, Settled: true}, nil
}

// cut makes n regions of each store; every third of those of store 0, which is none, has no leader.
func regionsOf(n int, stores ...cluster.StoreID) []cluster.Region {
	var out []cluster.Region
	for i := range n {
		for k, s := range stores {
			out = append(out, cluster.Region{ID: cluster.RegionID(1 + i*len(stores) + k), Version: 1, Leader: cluster.Peer{Store: s}})
		}
	}
	return out
}

var (
	one = marks.Source{Store: 1, Address: "one"}
	two = marks.Source{Store: 2, Address: "two"}
)

func TestRead_WhatCannotBeRead_HasNoMarkAndIsNoFailure(t *testing.T) {
	t.Parallel()
	down := failure.New(failure.Unknown, "read", "", "connection refused")
	for _, c := range []struct {
		name             string
		answer           func(address string, r cluster.RegionID) (tikv.RaftState, error)
		marks, unsettled int
		failed           int
		missing          []cluster.StoreID
		mostCalls        int64
	}{
		{"all answer", func(_ string, r cluster.RegionID) (tikv.RaftState, error) { return settled(r) }, 200, 100, 0, nil, 200},
		{"a store without the service is asked no more", func(a string, r cluster.RegionID) (tikv.RaftState, error) {
			if a == "two" {
				return tikv.RaftState{}, failure.New(failure.Unready, "read", a, "unknown service")
			}
			return settled(r)
		}, 100, 100, 100, []cluster.StoreID{2}, 100 + marks.MaxCalls},
		{"a store that is down is given up", func(a string, r cluster.RegionID) (tikv.RaftState, error) {
			if a == "two" {
				return tikv.RaftState{}, down
			}
			return settled(r)
		}, 100, 100, 100, nil, 100 + 2*marks.MaxCalls},
		{"a region has moved away", func(_ string, r cluster.RegionID) (tikv.RaftState, error) {
			if r%10 == 0 {
				return tikv.RaftState{}, failure.New(failure.NotFound, "read", "", "info for region")
			}
			return settled(r)
		}, 180, 120, 0, nil, 200},
		{"some answers are lost", func(_ string, r cluster.RegionID) (tikv.RaftState, error) {
			if r%10 == 0 {
				return tikv.RaftState{}, down
			}
			return settled(r)
		}, 180, 100, 20, nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := answering(func(_ context.Context, a string, r cluster.RegionID) (tikv.RaftState, error) { return c.answer(a, r) })
			var done atomic.Int64
			regions := append(regionsOf(100, 1, 2), regionsOf(100, 0)...) // the last have no leader
			got, err := marks.Read(t.Context(), s, []marks.Source{one, two}, regions, func() { done.Add(1) })
			require.NoError(t, err)
			require.Equal(t, c.unsettled, got.Unsettled)
			require.Equal(t, c.failed, got.Failed)
			require.Equal(t, c.missing, got.Missing)
			require.LessOrEqual(t, s.calls.Load(), c.mostCalls)
			require.EqualValues(t, 200, done.Load())
			set := got.Set()
			require.Equal(t, c.marks, set.Len())
			m, ok := set.Find(1)
			require.True(t, ok)
			require.Equal(t, marks.Mark{Region: 1, Version: 1, Term: 6, Index: 1}, m)
		})
	}
}

func TestReading_SetWithoutAStore_HasNoneOfItsMarks(t *testing.T) {
	t.Parallel()
	s := answering(func(_ context.Context, _ string, r cluster.RegionID) (tikv.RaftState, error) { return settled(r) })
	got, err := marks.Read(t.Context(), s, []marks.Source{one, two}, regionsOf(10, 1, 2), func() {})
	require.NoError(t, err)
	set := got.Set(2)
	require.Equal(t, 10, set.Len())
	_, ok := set.Find(1)
	require.True(t, ok)
	_, ok = set.Find(2)
	require.False(t, ok)
}

func TestRead_Cancelled_EndsWithTheCause(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := answering(func(ctx context.Context, _ string, _ cluster.RegionID) (tikv.RaftState, error) {
		cancel(stop)
		<-ctx.Done()
		return tikv.RaftState{}, ctx.Err()
	})
	_, err := marks.Read(ctx, s, []marks.Source{one}, regionsOf(1000, 1), func() {})
	require.ErrorIs(t, err, stop)
}

// slow is a store that takes 3 ms for each call.
func slow() *storesOf {
	return answering(func(ctx context.Context, _ string, r cluster.RegionID) (tikv.RaftState, error) {
		timer := time.NewTimer(3 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return settled(r)
		case <-ctx.Done():
			return tikv.RaftState{}, ctx.Err()
		}
	})
}

func TestRead_ManyRegions_KeepsToTheRateAndTheOpenCalls(t *testing.T) {
	t.Parallel()
	const n = 6000
	s, begin := slow(), time.Now()
	got, err := marks.Read(t.Context(), s, []marks.Source{one}, regionsOf(n, 1), func() {})
	require.NoError(t, err)
	require.Equal(t, n, got.Set().Len())
	require.LessOrEqual(t, s.most["one"], marks.MaxCalls)
	require.Greater(t, s.most["one"], 1)
	require.GreaterOrEqual(t, time.Since(begin), (n-marks.MaxCalls)*time.Second/marks.MaxRate, "a store gets more calls in a second than it may")
}

// 50,000 regions of a store that takes 3 ms for a call are to be read within 10 s.
func BenchmarkRead_LargeStore(b *testing.B) {
	regions := regionsOf(50_000, 1)
	for b.Loop() {
		s, begin := slow(), time.Now()
		_, err := marks.Read(b.Context(), s, []marks.Source{one}, regions, func() {})
		require.NoError(b, err)
		require.LessOrEqual(b, s.most["one"], marks.MaxCalls)
		require.Less(b, time.Since(begin), 10*time.Second)
	}
}
