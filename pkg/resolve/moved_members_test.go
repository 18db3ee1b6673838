package resolve_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// peerOn is what the store has of the region; false without a peer.
func peerOn(s *tikvtest.Store, region uint64) (tikvtest.PeerState, bool) {
	peers := s.Peers()
	i := slices.IndexFunc(peers, func(p tikvtest.PeerState) bool { return p.Region.Id == region })
	if i < 0 {
		return tikvtest.PeerState{}, false
	}
	return peers[i], true
}

// drawMove begins to move a random region's peer to the store that has none, until done is called.
func (l *lab) drawMove(r *rand.Rand) (m *tikvtest.Move, done func(), ok bool) {
	led := l.stores[r.IntN(len(l.stores))].Peers()
	if len(led) == 0 {
		return nil, nil, false
	}
	m = &tikvtest.Move{Region: led[r.IntN(len(led))].Region.Id}
	for _, i := range r.Perm(len(l.stores)) {
		if _, there := peerOn(l.stores[i], m.Region); there {
			m.From = l.stores[i]
		} else {
			m.To = l.stores[i]
		}
	}
	if m.From == nil || m.To == nil {
		return nil, nil, false
	}
	done, ok = l.pd.MovePeer(m.Region)
	return m, done, ok
}

// moveMembers moves peers one after the other, each move to its end, until stop, and counts them.
func (l *lab) moveMembers(ctx context.Context, stop <-chan struct{}, moves *atomic.Int64) error {
	for r := rand.New(rand.NewPCG(3, 4)); ; {
		select {
		case <-stop:
			return nil
		default:
		}
		m, done, ok := l.drawMove(r)
		if !ok {
			continue
		}
		err := m.Run(ctx, l.stores...)
		done()
		switch {
		case err == nil:
			moves.Add(1)
		case !errors.Is(err, tikvtest.ErrRegionGone):
			return err
		}
	}
}

// deposed cuts a leader off until another one leads, while it still takes itself for the leader.
func (l *lab) deposed(t *testing.T) {
	t.Helper()
	var from *tikvtest.Store
	region := uint64(0)
	for _, s := range l.stores {
		for _, p := range s.Peers() {
			if p.Serving {
				from, region = s, p.Region.Id
			}
		}
	}
	require.NotNil(t, from)
	for _, s := range l.stores {
		if s != from {
			l.network.Cut(from.ID(), s.ID())
		}
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(l.stores, func(s *tikvtest.Store) bool {
			p, ok := peerOn(s, region)
			return s != from && ok && p.Serving
		})
	}, patience, 5*time.Millisecond)
	for _, s := range l.stores {
		if s != from {
			l.network.Heal(from.ID(), s.ID())
		}
	}
}

// mergeSome merges up to n pairs of neighbours whose peers are on the same stores.
func (l *lab) mergeSome(t *testing.T, n int) (merged int) {
	t.Helper()
	for _, s := range l.stores {
		peers := s.Peers()
		for _, p := range peers {
			for _, q := range peers {
				if merged < n && p.Serving && len(p.Region.EndKey) > 0 && string(p.Region.EndKey) == string(q.Region.StartKey) &&
					s.Merge(within(t), p.Region.Id, q.Region.Id) == nil {
					merged++
				}
			}
		}
	}
	return merged
}

// regrouped is a cluster of four stores whose members have moved all the time, beside what disturbs another one: splits,
// merges, moved and deposed leaders, a restart, locks of a client that waits. One region is in a joint state at its mark
// and in the copies.
func regrouped(t *testing.T) (m *marked, joint cluster.RegionID) {
	t.Helper()
	m = makeMarked(t, 4, func(l *lab, w *workload.Workload) func() {
		churning, end := context.WithCancel(within(t))
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			if err := w.Churn(churning); err != nil {
				t.Errorf("churn: %v", err)
			}
		})
		var moves atomic.Int64
		running.Go(func() {
			if err := l.moveMembers(within(t), stop, &moves); err != nil {
				t.Errorf("move members: %v", err)
			}
		})
		progress := func(n int64) {
			next := w.Counters().Commits + n
			require.Eventually(t, func() bool { return w.Counters().Commits > next }, patience, 5*time.Millisecond)
		}
		require.Eventually(t, func() bool { return w.Counters().Moves > 1 && moves.Load() > 3 }, patience, 5*time.Millisecond)
		l.deposed(t)
		progress(50)
		require.Positive(t, l.mergeSome(t, 2), "no region was merged")
		progress(50)
		close(stop)
		end()
		running.Wait()
		l.bounce(t, 1)
		progress(50)
		joint = l.leaveJoint(t)
		return lockAtRest(t, l, w)
	})
	return m, joint
}

// leaveJoint lets a region stay in a joint state, at rest.
func (l *lab) leaveJoint(t *testing.T) cluster.RegionID {
	t.Helper()
	for r := rand.New(rand.NewPCG(5, 6)); ; {
		m, done, ok := l.drawMove(r)
		if !ok {
			continue
		}
		defer done()
		err := m.Try(within(t), m.Add, l.stores...)
		if errors.Is(err, tikvtest.ErrRegionGone) {
			continue // its merge was under way
		}
		require.NoError(t, err)
		require.NoError(t, m.Try(within(t), m.Enter, l.stores...))
		require.Eventually(t, func() bool {
			p, _ := peerOn(m.To, m.Region)
			return p.Applied > 0 && p.Applied == p.LastIndex
		}, patience, 5*time.Millisecond)
		return cluster.RegionID(m.Region)
	}
}

// TestMarks_MembersMove_FlashbackChangesNothingAndNoLockStays is the proof on real raft with everything that it names: changes
// of members with a joint state and snapshots, splits, merges, moved and deposed leaders, lags, a restart, pessimistic locks,
// asynchronous and one-phase commits.
func TestMarks_MembersMove_FlashbackChangesNothingAndNoLockStays(t *testing.T) {
	t.Parallel()
	m, joint := regrouped(t)
	_, marked := m.set().Find(joint)
	require.False(t, marked, "region %s is in a joint state", joint)
	m.proveRestores(t)
}
