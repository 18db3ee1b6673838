package flashstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/testbed/flashstore"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kind is what a region error means; -1 is success.
func kind(t *testing.T, err error) tikv.RegionErrorKind {
	t.Helper()
	if err == nil {
		return -1
	}
	var region *tikv.RegionError
	require.True(t, errors.As(err, &region), "%v", err)
	return region.Kind
}

// TestStore_FlashbackRules goes through what a real TiKV answered, in order.
func TestStore_FlashbackRules(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	peer := &metapb.Peer{Id: 3, StoreId: 1}
	region := &metapb.Region{Id: 2, Peers: []*metapb.Peer{peer}, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 7}}
	_, err = server.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Header: &pdpb.RequestHeader{ClusterId: server.ClusterID()}, Store: &metapb.Store{Id: 1, Address: "127.0.0.1:1"}, Region: region,
	})
	require.NoError(t, err)
	s, err := flashstore.Start(ctx, flashstore.Config{ID: 1, PD: server, Regions: []*metapb.Region{region}, Slots: 1, Cost: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	c := tikv.Open(tikv.Config{})
	t.Cleanup(c.Close)

	f := tikv.Flashback{
		Region:  cluster.Region{ID: 2, ConfVer: 1, Version: 7, Leader: cluster.Peer{ID: 3, Store: 1}},
		Version: 10, StartTS: 20, CommitTS: 21,
	}
	prepare := func(f tikv.Flashback) tikv.RegionErrorKind { return kind(t, c.PrepareFlashback(ctx, s.Address(), f)) }
	flash := func(f tikv.Flashback) tikv.RegionErrorKind { return kind(t, c.Flashback(ctx, s.Address(), f)) }
	recovering, stop := context.WithCancel(ctx)
	defer stop()
	lead := func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Recover(recovering, s.Address(), []tikv.Command{{Region: 2, AsLeader: true}})
		}()
		require.Eventually(t, func() bool { return prepare(f) == -1 }, time.Minute, time.Millisecond)
		t.Cleanup(func() { stop(); <-ended })
	}
	const ok = tikv.RegionErrorKind(-1)
	require.Equal(t, tikv.RegionStale, prepare(f), "no leader before RecoverRegion")
	lead()
	require.Equal(t, 1, s.Undone(20, 21))
	old, other, larger := f, f, f
	old.Region.Version, other.StartTS, larger.Keys.Start = 6, 19, []byte("k")
	require.Equal(t, tikv.RegionStale, flash(old))
	require.Equal(t, tikv.RegionStale, flash(larger))
	require.Equal(t, tikv.RegionNotPrepared, flash(other))
	require.Equal(t, ok, flash(f))
	require.Equal(t, ok, flash(f), "the same call again")
	require.Zero(t, s.Undone(20, 21))
	later := f
	later.CommitTS = 22
	require.Equal(t, tikv.RegionNotPrepared, flash(later))

	require.NoError(t, s.Restart(ctx))
	require.Eventually(t, func() bool { // the connection comes back
		var region *tikv.RegionError
		err := c.Flashback(ctx, s.Address(), f)
		return errors.As(err, &region) && region.Kind == tikv.RegionStale
	}, time.Minute, 10*time.Millisecond, "a restart loses the leaders")
	lead() // and prepares: the region is blocked again
	require.Equal(t, 1, s.Undone(20, 21))
	require.Equal(t, ok, flash(f))
	require.Zero(t, s.Undone(20, 21))
}
