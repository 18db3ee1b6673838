package tikvtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// A region with a single voter elects itself as soon as its store is up in recovery mode.
func TestRecoveryMode_SingleVoter_ElectsItself(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.stores[0].Kill()
	r := c.restore([][]*disk.Image{disk.Cut(c.volumes[0].data, c.volumes[0].log)})
	require.True(t, r.stores[0].Recovering())
	require.NoError(t, tikvtest.AwaitLeaders(r.ctx(10*time.Second), r.stores...))
}

// What it reports displaces the region that PD was bootstrapped with, and a store that starts later waits until PD has a
// region of the first key again.
func TestRecoveryMode_PDHasNoFirstRegion_StoreWaitsForIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, s := range c.stores {
		s.Kill()
	}
	ctx := c.ctx(20 * time.Second)
	pd, err := pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, pd.Start())
	t.Cleanup(pd.Close)
	peer := &metapb.Peer{Id: 901, StoreId: 77}
	_, err = pd.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Store: &metapb.Store{Id: 77, Address: "a:1"}, Region: &metapb.Region{Id: 900, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}, Peers: []*metapb.Peer{peer}},
	})
	require.NoError(t, err)
	mark, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+pd.Addrs()[0]+"/pd/api/v1/admin/cluster/markers/snapshot-recovering", nil)
	require.NoError(t, err)
	marked, err := http.DefaultClient.Do(mark)
	require.NoError(t, err)
	require.NoError(t, marked.Body.Close())
	require.True(t, pd.Recovering())
	report := func(id uint64, start, end string) {
		answer, err := pd.ReportRegion(ctx, &pdpb.RegionHeartbeatRequest{Term: 6, Leader: peer, Region: &metapb.Region{
			Id: id, StartKey: []byte(start), EndKey: []byte(end), RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 2}, Peers: []*metapb.Peer{peer},
		}})
		require.NoError(t, err)
		require.Nil(t, answer.GetHeader().GetError())
	}
	report(901, "k", "")

	data, err := disk.FromImage(disk.Cut(c.volumes[0].data)[0], c.volumes[0].data.Size())
	require.NoError(t, err)
	log, err := disk.FromImage(disk.Cut(c.volumes[0].log)[0], c.volumes[0].log.Size())
	require.NoError(t, err)
	options := quick
	options.BootstrapRetry = 20 * time.Millisecond
	asked := make(chan struct{}, 100)
	started := make(chan error, 1)
	var store *tikvtest.Store
	go func() {
		var err error
		store, err = tikvtest.Start(ctx, tikvtest.Config{
			Data: data, RaftLog: log, PD: pd, Network: tikvtest.NewNetwork(), Options: options,
			Logf: func(format string, _ ...any) {
				if format == "tikv store %d: bootstrap cluster failure; RegionNotFound" {
					asked <- struct{}{}
				}
			},
		})
		started <- err
	}()
	for range 3 {
		select {
		case <-asked:
		case err := <-started:
			require.Fail(t, "it did not wait", "%v", err)
		}
	}
	require.Equal(t, []uint64{77}, registered(t, pd), "it is not registered yet")
	report(902, "", "k")
	require.NoError(t, <-started)
	t.Cleanup(store.Kill)
	require.Contains(t, registered(t, pd), store.ID())
}

// registered are the stores that PD knows.
func registered(t *testing.T, pd *pdtest.Server) []uint64 {
	t.Helper()
	all, err := pd.GetAllStores(t.Context(), &pdpb.GetAllStoresRequest{})
	require.NoError(t, err)
	var ids []uint64
	for _, s := range all.GetStores() {
		ids = append(ids, s.GetId())
	}
	return ids
}
