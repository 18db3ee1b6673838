package tikv_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// standIn is a cluster of one store.
type standIn struct {
	store  *tikvtest.Store
	pd     *pdtest.Server
	faults *fault.Plan
	client *tikv.Client
}

func startStandIn(t *testing.T) *standIn {
	t.Helper()
	c := &standIn{faults: &fault.Plan{}, client: tikv.Open(tikv.Config{})}
	t.Cleanup(c.client.Close)
	var err error
	c.pd, err = pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, c.pd.Start())
	t.Cleanup(c.pd.Close)
	ctx := within(t, 30*time.Second)
	c.store, err = tikvtest.Start(ctx, tikvtest.Config{
		Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: c.pd, Network: tikvtest.NewNetwork(), Faults: c.faults,
		Options: tikvtest.Options{TickInterval: 20 * time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(c.store.Kill)
	require.NoError(t, tikvtest.BootstrapCluster(ctx, c.store))
	require.Eventually(t, func() bool {
		led, _, err := c.client.LedRegions(ctx, c.store.Addr())
		return err == nil && len(led) > 0
	}, 30*time.Second, 10*time.Millisecond)
	return c
}

// region is the store's first region, with the store as leader.
func (c *standIn) region(t *testing.T) cluster.Region {
	t.Helper()
	peers := c.store.Peers()
	require.NotEmpty(t, peers)
	r := peers[0].Region
	leader := cluster.Peer{ID: cluster.PeerID(peers[0].PeerID), Store: cluster.StoreID(c.store.ID())}
	return cluster.Region{
		ID: cluster.RegionID(r.Id), Keys: cluster.KeyRange{Start: r.StartKey, End: r.EndKey}, ConfVer: r.RegionEpoch.ConfVer,
		Version: r.RegionEpoch.Version, Peers: []cluster.Peer{leader}, Leader: leader,
	}
}

func TestStandIn_Lease_HoldsRenewsAndFinishes(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	lease, err := c.client.OpenLease(ctx, c.store.Addr())
	require.NoError(t, err)
	defer lease.Close()
	valid, err := lease.Renew(ctx, 10*time.Second)
	require.NoError(t, err)
	require.False(t, valid, "opening the stream has not paused the store")
	stale := c.region(t)
	stale.Version += 5
	failed, err := lease.WaitApply(ctx, []cluster.Region{stale})
	require.NoError(t, err)
	require.Len(t, failed, 1)
	failed, err = lease.WaitApply(ctx, []cluster.Region{c.region(t)})
	require.NoError(t, err)
	require.Empty(t, failed)
	valid, err = lease.Renew(ctx, 10*time.Second)
	require.NoError(t, err)
	require.True(t, valid)
	valid, err = lease.Finish(ctx)
	require.NoError(t, err)
	require.True(t, valid)
}

func TestStandIn_SecondStream_EndsTheFirst(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	first, err := c.client.OpenLease(ctx, c.store.Addr())
	require.NoError(t, err)
	defer first.Close()
	_, err = first.Renew(ctx, 10*time.Second)
	require.NoError(t, err)
	second, err := c.client.OpenLease(ctx, c.store.Addr())
	require.NoError(t, err)
	defer second.Close()
	valid, err := second.Renew(ctx, 10*time.Second)
	require.NoError(t, err)
	require.True(t, valid, "the lease is the store's")
	require.Eventually(t, func() bool {
		_, err := first.Renew(ctx, 10*time.Second)
		return failure.Is(err, failure.Conflict)
	}, 30*time.Second, 10*time.Millisecond)
}

func TestStandIn_WaitApplyWithoutLease_IsUnready(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	lease, err := c.client.OpenLease(ctx, c.store.Addr())
	require.NoError(t, err)
	defer lease.Close()
	_, err = lease.WaitApply(ctx, []cluster.Region{c.region(t)})
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
}

func TestStandIn_Imports_ReportTheStateBefore(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	already, err := c.client.SuspendImport(ctx, c.store.Addr(), "run", 10*time.Second)
	require.NoError(t, err)
	require.False(t, already)
	already, err = c.client.ResumeImport(ctx, c.store.Addr(), "run")
	require.NoError(t, err)
	require.True(t, already)
}

func TestStandIn_NormalMode_HasNoRecovery(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	none := func(tikv.RegionMeta) error { return nil }
	require.Equal(t, failure.Unready, failure.KindOf(c.client.RegionMetas(ctx, c.store.Addr(), none)))
	require.Equal(t, failure.Unready, failure.KindOf(c.client.Recover(ctx, c.store.Addr(), nil)))
}

func TestStandIn_FlashbackAnswerLost_MayBeRepeated(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	now := func() cluster.TS {
		ts, err := c.pd.FreshTS(ctx)
		require.NoError(t, err)
		return cluster.TS(ts)
	}
	f := tikv.Flashback{Region: c.region(t), Version: now(), StartTS: now(), CommitTS: now()}
	keys, err := tikv.DecodeRange(f.Region.Keys)
	require.NoError(t, err)
	f.Keys = keys
	require.NoError(t, c.client.Flashback(ctx, c.store.Addr(), f), "a region without data does not notice that it was not prepared")
	require.NoError(t, c.client.PrepareFlashback(ctx, c.store.Addr(), f))
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Position: fault.After}))
	err = c.client.Flashback(ctx, c.store.Addr(), f)
	require.Equal(t, failure.Unknown, failure.KindOf(err), "%v", err)
	require.Empty(t, c.faults.Unreached())
	require.NoError(t, c.client.Flashback(ctx, c.store.Addr(), f))
}
