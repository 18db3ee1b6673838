package tikvtest_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestStore_WriteAndRead_ReplicatesToAllPeers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10), key(20))
	k := c.client()
	for i := range 30 {
		k.put(key(i), []byte(strconv.Itoa(i)))
	}
	for i := range 30 {
		require.Equal(t, strconv.Itoa(i), k.get(key(i), k.now()))
	}
	c.settled()
}

func TestStore_KillAndRestartAll_KeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10), key(20))
	c.options.FlushInterval = time.Hour // nothing but the raft log survives
	k := c.client()
	for round := range 3 {
		for i := range 30 {
			k.put(key(i), []byte(strconv.Itoa(round*100+i)))
		}
		for _, s := range c.stores {
			s.Kill()
		}
		c.startAll()
		require.NoError(t, tikvtest.AwaitLeaders(c.ctx(20*time.Second), c.stores...))
		for i := range 30 {
			require.Equal(t, strconv.Itoa(round*100+i), k.get(key(i), k.now()))
		}
	}
}

func TestStore_LeaderKilled_OthersElectAndGoOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	k.put(key(1), []byte("before"))
	victim, _ := c.leader(key(1))
	victim.Kill()
	<-victim.Done()
	require.NoError(t, victim.Err())
	require.Equal(t, "before", k.get(key(1), k.now()))
	k.put(key(1), []byte("after"))
	for i, s := range c.stores {
		if s == victim {
			c.start(i)
		}
	}
	require.Equal(t, "after", k.get(key(1), k.now()))
}

func TestSplitAt_ThreeHundredRegions_TakesLittleTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	var keys [][]byte
	for i := 1; i < 300; i++ {
		keys = append(keys, key(i))
	}
	started := time.Now()
	require.NoError(t, tikvtest.SplitAt(c.ctx(30*time.Second), c.stores, keys...))
	t.Logf("split in %v", time.Since(started))
	require.Len(t, c.stores[0].Peers(), 300)
}

func TestStore_FollowerRestarted_LeaderStays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10), key(20))
	c.settled()
	leader, _ := c.leader(key(1))
	// So that the restarted peers hear from no leader by themselves.
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(leader.Peers(), func(p tikvtest.PeerState) bool { return p.Leader && !leader.Hibernates(p.Region.Id) })
	}, 30*time.Second, quick.TickInterval)
	for i, s := range c.stores {
		if s != leader {
			s.Kill()
			c.start(i)
			break
		}
	}
	require.Never(t, func() bool {
		now, _ := c.leader(key(1))
		return now != leader
	}, 60*quick.TickInterval, 10*time.Millisecond)
}

func TestBootstrapRegions_MoreThanThreeStores_ShareLeadersAndPeers(t *testing.T) {
	t.Parallel()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), options: quick}
	for range 5 {
		c.volumes = append(c.volumes, newVolumes())
	}
	c.startAll()
	var keys [][]byte
	for i := 1; i < 10; i++ {
		keys = append(keys, key(i))
	}
	require.NoError(t, tikvtest.BootstrapRegions(c.ctx(10*time.Second), c.stores, keys...))
	for _, s := range c.stores {
		require.Len(t, s.Peers(), 6)
		led := 0
		for _, p := range s.Peers() {
			require.Len(t, p.Region.Peers, 3)
			if p.Leader {
				led++
			}
		}
		require.Equal(t, 2, led)
	}
	c.client().put(key(5), []byte("v"))
}
