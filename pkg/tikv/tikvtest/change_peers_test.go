package tikvtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// member is what a store has of a region; false without a peer.
func member(s *tikvtest.Store, region uint64) (tikvtest.PeerState, bool) {
	peers := s.Peers()
	i := slices.IndexFunc(peers, func(p tikvtest.PeerState) bool { return p.Region.Id == region })
	if i < 0 {
		return tikvtest.PeerState{}, false
	}
	return peers[i], true
}

func roles(r *metapb.Region) map[uint64]metapb.PeerRole {
	out := map[uint64]metapb.PeerRole{}
	for _, p := range r.Peers {
		out[p.StoreId] = p.Role
	}
	return out
}

// fourStores is a cluster whose region has peers on the first three of its stores.
func fourStores(t *testing.T, keys ...[]byte) *testCluster {
	t.Helper()
	c := newCluster(t, 4)
	if len(keys) > 0 {
		require.NoError(t, tikvtest.SplitAt(c.ctx(30*time.Second), c.stores, keys...))
	}
	return c
}

func TestMove_NewPeerHasTheData_OldOneIsGone(t *testing.T) {
	t.Parallel()
	c := fourStores(t)
	k := c.client()
	k.put(key(1), []byte("a"))
	region := c.stores[0].Peers()[0].Region.Id
	m := &tikvtest.Move{Region: region, From: c.stores[0], To: c.stores[3]}
	require.NoError(t, m.Try(c.ctx(30*time.Second), m.Add, c.stores...))
	require.NoError(t, m.Try(c.ctx(30*time.Second), m.Enter, c.stores...))
	joint, ok := member(c.stores[3], region)
	require.True(t, ok)
	leader, _ := c.leader(key(1))
	now, _ := member(leader, region)
	require.Equal(t, map[uint64]metapb.PeerRole{
		c.stores[0].ID(): metapb.PeerRole_DemotingVoter, c.stores[1].ID(): metapb.PeerRole_Voter,
		c.stores[2].ID(): metapb.PeerRole_Voter, c.stores[3].ID(): metapb.PeerRole_IncomingVoter,
	}, roles(now.Region))
	k.put(key(2), []byte("b"))
	require.NoError(t, m.Run(c.ctx(30*time.Second), c.stores...))
	require.Eventually(t, func() bool { _, there := member(c.stores[0], region); return !there }, 30*time.Second, time.Millisecond)
	k.put(key(3), []byte("c"))
	// The new peer decides with one of the old ones, and the third is not needed.
	leader, _ = c.leader(key(1))
	other := c.stores[1]
	if leader == other {
		other = c.stores[2]
	}
	other.Kill()
	c.stores[0].Kill()
	k.put(key(4), []byte("d"))
	for i, want := range []string{"a", "b", "c", "d"} {
		require.Equal(t, want, k.get(key(i+1), k.now()))
	}
	require.Eventually(t, func() bool {
		p, _ := member(c.stores[3], region)
		return p.Applied > joint.Applied && p.Applied == p.LastIndex
	}, 30*time.Second, time.Millisecond)
}

func TestChangePeers_UnderALease_IsRefused(t *testing.T) {
	t.Parallel()
	c := fourStores(t)
	leader, _ := c.leader(key(1))
	region := leader.Peers()[0].Region.Id
	c.openLease(leader).renew(30)
	m := &tikvtest.Move{Region: region, From: c.stores[0], To: c.stores[3]}
	require.ErrorContains(t, m.Add(c.ctx(30*time.Second), leader), "[Suspended]")
}

// Peers move all the time while regions split, leaders change, stores are killed and rows are written: whatever was
// acknowledged is there, also when all stores have restarted.
func TestMove_AnyTimes_KeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := fourStores(t, key(20), key(40))
	ctx, stop := context.WithTimeout(c.ctx(90*time.Second), 2*time.Second)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { moveAround(ctx, t, c.stores) })
	written := map[int]string{}
	k := c.client()
	for i := 0; ctx.Err() == nil; i++ {
		at := i % 60
		written[at] = fmt.Sprint(i)
		k.put(key(at), []byte(written[at]))
		if i == 30 {
			require.NoError(t, tikvtest.SplitAt(c.ctx(60*time.Second), c.stores, key(30)))
		}
	}
	running.Wait()
	for _, s := range c.stores {
		s.Kill()
	}
	c.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(c.ctx(60*time.Second), c.stores...))
	k = c.client()
	for at, want := range written {
		require.Equal(t, want, k.get(key(at), k.now()), "key %d", at)
	}
}

// moveAround moves peers at random until ctx ends; a move that is under way then stays as it is.
func moveAround(ctx context.Context, t *testing.T, stores []*tikvtest.Store) {
	moves := 0
	for r := rand.New(rand.NewPCG(1, 2)); ctx.Err() == nil; {
		peers := stores[r.IntN(len(stores))].Peers()
		if len(peers) == 0 {
			continue
		}
		region := peers[r.IntN(len(peers))].Region
		m := &tikvtest.Move{Region: region.Id}
		for _, s := range stores {
			on := slices.ContainsFunc(region.Peers, func(p *metapb.Peer) bool { return p.StoreId == s.ID() })
			if !on {
				m.To = s
			} else if m.From == nil || r.IntN(2) == 0 {
				m.From = s
			}
		}
		if m.To == nil || m.From == nil {
			continue
		}
		moving, cancel := context.WithTimeout(ctx, time.Second)
		err := m.Run(moving, stores...)
		cancel()
		if err == nil {
			moves++
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("move: %v", err)
		}
	}
	if moves < 3 {
		t.Errorf("only %d peers were moved", moves)
	}
}
