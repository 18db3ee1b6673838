package testbed_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

// What a cluster under load keeps is bounded by its rows, however many transactions there were; a service safe point
// keeps what it is for; and the rows stay right.
func TestCluster_CollectGarbage_BoundsAClusterUnderLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 50})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(ctx, cluster.Name{Namespace: "tidb", Name: "prod"}, 3)
	require.NoError(t, err)
	const accounts = 50
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: accounts, Clients: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, load.Close()) })
	require.NoError(t, load.Load(ctx))
	db, err := load.Cluster(ctx)
	require.NoError(t, err)

	transfer := func() cluster.TS {
		run, stop := context.WithCancel(ctx)
		defer stop()
		want := load.Counters().Commits + 300
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, load.Run(run)) })
		require.Eventually(t, func() bool { return load.Counters().Commits >= want }, time.Minute, 5*time.Millisecond)
		stop()
		running.Wait()
		require.NoError(t, load.Settle(ctx))
		now, err := db.Now(ctx)
		require.NoError(t, err)
		return now
	}
	var now cluster.TS
	for range 2 {
		now = transfer()
		rows, err := load.Verify(ctx, now)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // followers apply the last commits a moment later
			safe, err := c.CollectGarbage(ctx, now)
			return err == nil && safe == now && !slices.ContainsFunc(c.Stores(), func(s *tikvtest.Store) bool { return s.Versions() > rows.Rows })
		}, 30*time.Second, 10*time.Millisecond, "each store keeps one record of each of %d rows", rows.Rows)
		_, err = load.Verify(ctx, now)
		require.NoError(t, err)
	}

	held := now // as a backup does it
	_, err = c.PD.UpdateServiceGCSafePoint(ctx, &pdpb.UpdateServiceGCSafePointRequest{ServiceId: []byte("backup"), TTL: 3600, SafePoint: uint64(held)})
	require.NoError(t, err)
	now = transfer()
	safe, err := c.CollectGarbage(ctx, now)
	require.NoError(t, err)
	require.Equal(t, held, safe, "a service safe point keeps what it is for")
	for _, at := range []cluster.TS{held, now} {
		_, err = load.Verify(ctx, at)
		require.NoError(t, err)
	}
}
