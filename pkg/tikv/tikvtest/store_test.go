package tikvtest_test

import (
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
