package tikvtest_test

import (
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// witnessed is a cluster whose region has a witness on the third store, and a key.
func witnessed(t *testing.T) (c *testCluster, region uint64) {
	t.Helper()
	c = newCluster(t, 3)
	region = c.stores[0].Peers()[0].Region.Id
	require.NoError(t, tikvtest.MakeWitness(c.ctx(30*time.Second), region, c.stores[2], c.stores...))
	c.client().put(key(1), []byte("a"))
	c.settled()
	return c, region
}

func (c *testCluster) cut(stores ...int) (images [][]*disk.Image) {
	for _, i := range stores {
		images = append(images, disk.Cut(c.volumes[i].data, c.volumes[i].log))
	}
	return images
}

// serves reports whether the store leads the region and has applied.
func serves(s *tikvtest.Store, region uint64) bool {
	p, ok := member(s, region)
	return ok && p.Serving
}

// TiKV: test_witness_election_priority.
func TestWitness_LogIsNotLonger_IsNotElected(t *testing.T) {
	t.Parallel()
	c, region := witnessed(t)
	r := c.restore(c.cut(0, 1, 2))
	_, err := recoverRegions(r.ctx(time.Second), t, r.stores[2], region)
	require.Error(t, err, "it campaigns again and again")
	require.False(t, serves(r.stores[2], region))
	_, err = recoverRegions(r.ctx(30*time.Second), t, r.stores[0], region)
	require.NoError(t, err)
	require.Equal(t, "a", r.client().get(key(1), r.client().now()))
}

// TiKV: test_witness_leader_down.
func TestWitness_LogIsTheLongest_LeadsWithoutDataAndIsBeatenThen(t *testing.T) {
	t.Parallel()
	c, region := witnessed(t)
	images := c.cut(0, 1)
	c.client().put(key(2), []byte("b"))
	c.settled()
	r := c.restore(append(images, c.cut(2)...))
	_, err := recoverRegions(r.ctx(30*time.Second), t, r.stores[2], region)
	require.NoError(t, err)
	require.True(t, serves(r.stores[2], region))
	p, _ := member(r.stores[2], region)
	k := r.client()
	resp, err := k.on(r.stores[2]).KvGet(r.ctx(10*time.Second), &kvrpcpb.GetRequest{Context: contextOf(r.stores[2], p), Key: key(1), Version: k.now()})
	require.NoError(t, err)
	require.Equal(t, region, resp.RegionError.GetIsWitness().GetRegionId())
	_, err = recoverRegions(r.ctx(30*time.Second), t, r.stores[0], region)
	require.NoError(t, err)
	require.False(t, serves(r.stores[2], region))
	require.Equal(t, "b", k.get(key(2), k.now()), "which its log alone had")
}
