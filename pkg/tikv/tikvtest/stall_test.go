package tikvtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// newEarly is a cluster of three stores whose only region's leader applies early, up to a limit.
func newEarly(t *testing.T, limit uint64) (*testCluster, *tikvtest.Store, int) {
	t.Helper()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), options: quick}
	c.options.EarlyApply = &limit
	for range 3 {
		c.volumes = append(c.volumes, newVolumes())
	}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(10*time.Second), c.stores...))
	c.client().put(key(1), []byte("old"))
	c.settled()
	leader, _ := c.leader(key(1))
	require.NotNil(t, leader)
	if limit > 0 {
		require.Eventually(t, func() bool { return leader.EarlyAppliers() == 1 }, 30*time.Second, time.Millisecond)
	}
	for i, s := range c.stores {
		if s == leader {
			return c, leader, i
		}
	}
	return nil, nil, 0
}

// raft is what a store's Debug service reports of its first region.
func (c *testCluster) raft(s *tikvtest.Store) (applied, last uint64) {
	c.t.Helper()
	info, err := debugpb.NewDebugClient(dial(c.t, s)).RegionInfo(c.ctx(10*time.Second), &debugpb.RegionInfoRequest{RegionId: s.Peers()[0].Region.Id})
	require.NoError(c.t, err)
	return info.RaftApplyState.AppliedIndex, info.RaftLocalState.LastIndex
}

func TestStallLog_Leader_AppliesWhatItsLogHasNot(t *testing.T) {
	t.Parallel()
	c, leader, _ := newEarly(t, 1024)
	_, before := c.raft(leader)
	leader.StallLog(0)
	c.client().put(key(1), []byte("new"))
	applied, last := c.raft(leader)
	require.Equal(t, before, last, "nothing is durable")
	require.Equal(t, before+2, applied, "and a client has its answer")
	for _, s := range c.stores {
		if s != leader {
			applied, last := c.raft(s)
			require.LessOrEqual(t, applied, last)
		}
	}
	leader.ResumeLog()
	require.Eventually(t, func() bool { applied, last := c.raft(leader); return applied <= last }, 30*time.Second, time.Millisecond)
	c.equalReplicas()
	require.Equal(t, "new", c.client().get(key(1), c.client().now()))
}

func TestStallLog_LeaderWithALimit_AppliesNoMore(t *testing.T) {
	t.Parallel()
	c, leader, _ := newEarly(t, 3)
	_, before := c.raft(leader)
	leader.StallLog(0)
	k := c.client()
	k.put(key(1), []byte("two entries"))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		k.put(key(2), []byte("two more"))
	}()
	require.Eventually(t, func() bool {
		applied, _ := c.raft(leader)
		return applied == before+3 && leader.Peers()[0].LastIndex == before+4
	}, 30*time.Second, time.Millisecond)
	require.Never(t, func() bool { return leader.Peers()[0].Applied > before+3 }, 200*time.Millisecond, 5*time.Millisecond)
	leader.ResumeLog()
	<-answered
}

// Without early apply a client waits for the log of the leader.
func TestStallLog_LeaderWithoutEarlyApply_AnswersWhenItsLogHasIt(t *testing.T) {
	t.Parallel()
	c, leader, _ := newEarly(t, 0)
	_, before := c.raft(leader)
	leader.StallLog(0)
	answered := make(chan struct{})
	k := c.client()
	go func() {
		defer close(answered)
		k.put(key(1), []byte("new"))
	}()
	require.Eventually(t, func() bool { return leader.Peers()[0].LastIndex > before }, 30*time.Second, time.Millisecond)
	require.Never(t, func() bool { return leader.Peers()[0].Applied > before || len(answered) > 0 }, 200*time.Millisecond, 5*time.Millisecond)
	leader.ResumeLog()
	<-answered
	c.equalReplicas()
}

func TestStallLog_Follower_DoesNotHoldTheOthersUpAndIsNeverAhead(t *testing.T) {
	t.Parallel()
	c, leader, i := newEarly(t, 1024)
	follower := c.stores[(i+1)%3]
	require.NotEqual(t, leader, follower)
	_, before := c.raft(follower)
	follower.StallLog(0)
	for n := range 5 {
		c.client().put(key(n), []byte("new"))
	}
	applied, last := c.raft(follower)
	require.Equal(t, before, last)
	require.Equal(t, before, applied)
	follower.ResumeLog()
	c.equalReplicas()
}

func TestStallLog_ForAWhile_EndsByItself(t *testing.T) {
	t.Parallel()
	c, leader, _ := newEarly(t, 1024)
	leader.StallLog(50 * time.Millisecond)
	c.client().put(key(1), []byte("new"))
	require.Eventually(t, func() bool { applied, last := c.raft(leader); return applied == last }, 30*time.Second, time.Millisecond)
}

// The others have what it has lost; it gets it again, and skips what its data have.
func TestStallLog_LeaderKilled_StartsWithDataAheadAndCatchesUp(t *testing.T) {
	t.Parallel()
	c, leader, i := newEarly(t, 1024)
	c.aheadOnDevice(leader)
	leader.Kill()
	require.NoError(t, leader.Err())
	c.start(i)
	c.client().put(key(1), []byte("newest"))
	c.equalReplicas()
	applied, last := c.raft(c.stores[i])
	require.Equal(t, last, applied)
}

// aheadOnDevice stalls the store's log, writes four entries, and returns when the device of its data has them.
func (c *testCluster) aheadOnDevice(leader *tikvtest.Store) {
	c.t.Helper()
	leader.StallLog(0)
	c.client().put(key(2), []byte("after the backup"))
	c.client().put(key(3), []byte("after the backup"))
	require.Eventually(c.t, func() bool { p := leader.Peers()[0]; return p.Durable == p.LastIndex }, 30*time.Second, time.Millisecond)
}

// cutAhead is a copy in recovery mode whose store i has data ahead of its log, which is as the others' are, or longer.
func cutAhead(t *testing.T, longer bool) (r *testCluster, i int, version uint64) {
	t.Helper()
	c, leader, i := newEarly(t, 1024)
	version = c.client().now()
	images := make([][]*disk.Image, 3)
	for n := range c.volumes {
		if n != i {
			images[n] = disk.Cut(c.volumes[n].data, c.volumes[n].log)
		}
	}
	if longer {
		c.client().put(key(1), []byte("in its log alone"))
		require.Eventually(t, func() bool { applied, last := c.raft(leader); return applied == last }, 30*time.Second, time.Millisecond)
	}
	c.aheadOnDevice(leader)
	images[i] = disk.Cut(c.volumes[i].data, c.volumes[i].log)
	for _, s := range c.stores {
		s.Kill()
	}
	r = c.restore(images)
	for n, s := range r.stores { // from its bytes it is the same
		on, replicas, err := tikvtest.ReadVolumes(images[n][0], images[n][1])
		require.NoError(t, err)
		require.Equal(t, s.ID(), on)
		applied, last := r.raft(s)
		require.Len(t, replicas, 1)
		require.Equal(t, last, replicas[0].Last)
		require.Equal(t, s.Peers()[0].Term, replicas[0].Term)
		require.LessOrEqual(t, replicas[0].Applied, applied, "it applies at its start what is committed")
		require.Equal(t, n == i, replicas[0].Applied > last)
	}
	r.pd.raiseTS(c.pd.lastTS + 1000)
	for n, s := range r.stores {
		applied, last := r.raft(s)
		if n == i {
			require.Equal(t, last+4, applied)
			continue
		}
		require.LessOrEqual(t, applied, last)
		_, first := r.raft(r.stores[i])
		require.Equal(t, longer, first > last)
	}
	return r, i, version
}

// What the data have is never undone: the flashback's entries are skipped like all others up to there.
func TestRestore_DataAheadOfALogThatDoesNotLead_KeepsThem(t *testing.T) {
	t.Parallel()
	r, i, version := cutAhead(t, false)
	leads := r.stores[(i+1)%3]
	_, err := recoverRegions(r.ctx(20*time.Second), t, leads, leads.Peers()[0].Region.Id)
	require.NoError(t, err)
	r.flashbackAll(version)
	k := r.client()
	require.Equal(t, "old", k.get(key(1), k.now()))
	require.Empty(t, k.get(key(3), k.now()), "the leader is right")
	for n := range 10 { // far above what the data have
		k.put(key(100+n), []byte("new life"))
	}
	require.Eventually(t, func() bool {
		own := make([]tikvtest.Replica, 3)
		for n, s := range r.stores {
			own[n] = s.Replicas()[0]
		}
		ahead, other, third := own[i], own[(i+1)%3], own[(i+2)%3]
		return ahead.Applied == other.Applied && other == third && ahead.Sum != other.Sum
	}, 30*time.Second, time.Millisecond)
}

// A leader that skips its own first entry never serves; RecoverRegion ends well all the same.
func TestRestore_LeaderWithDataAhead_NeverServesAndDiesOfAProposal(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"a tie": false, "the best log": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, i, version := cutAhead(t, longer)
			leads := r.stores[i]
			_, err := recoverRegions(r.ctx(20*time.Second), t, leads, leads.Peers()[0].Region.Id)
			require.NoError(t, err)
			p := leads.Peers()[0]
			require.True(t, p.Leader)
			require.False(t, p.Serving)
			kv := r.client().on(leads)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err = kv.KvGet(ctx, &kvrpcpb.GetRequest{Context: contextOf(leads, p), Key: key(1), Version: version})
			cancel()
			require.Error(t, err, "no answer")
			for call := 1; ; call++ { // one below what its data have is never answered, the first above kills it
				require.LessOrEqual(t, call, 4)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				resp, err := kv.KvPrepareFlashbackToVersion(ctx, &kvrpcpb.PrepareFlashbackToVersionRequest{
					Context: contextOf(leads, p), StartTs: version + 1, Version: version})
				cancel()
				if call <= 3 {
					require.Equal(t, codes.DeadlineExceeded, status.Code(err))
					continue
				}
				require.True(t, err != nil || resp.RegionError != nil, "a store that dies may report it")
				break
			}
			<-leads.Done()
			require.ErrorContains(t, leads.Err(), "unexpected callback at term")
		})
	}
}

// Before 8.1 nothing was applied that the log did not have, and such a store does not start.
func TestRestore_DataAhead_AVersionWithoutEarlyApply_DiesAtItsStart(t *testing.T) {
	t.Parallel()
	c, leader, i := newEarly(t, 1024)
	c.aheadOnDevice(leader)
	for _, s := range c.stores {
		s.Kill()
	}
	c.options.NoEarlyApply = true
	s, err := tikvtest.Start(c.ctx(10*time.Second), tikvtest.Config{
		Data: c.volumes[i].data, RaftLog: c.volumes[i].log, PD: c.pd, Network: c.net, Options: c.options,
	})
	if err == nil {
		<-s.Done()
		err = s.Err()
	}
	require.ErrorContains(t, err, "is above the last index")
}
