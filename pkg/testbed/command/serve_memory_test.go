package command

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// served is one of ten clusters.
type served struct {
	cluster *testbed.Cluster
	load    *workload.Workload
}

// Ten clusters under load take no more memory after seven rounds of transfers and garbage collection than after one.
func TestServe_TenClusters_HeapDoesNotGrow(t *testing.T) { // it measures the whole process's heap
	const (
		clusters, rounds = 10, 7
		allowed          = 3 << 19 // what the heap may differ by; without garbage collection it grows by more than twice that
	)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	f := serveFlags{dir: t.TempDir(), nodes: 3, scale: 100}
	cfg := f.config(&fault.Plan{})
	cfg.TiKV.CheckpointBytes = 4 << 10             // a device's log is as long as it gets after the first rounds
	cfg.TiKV.LogGCInterval = 50 * time.Millisecond // every round drops its entries, also one that takes less than 3 s
	bed, err := testbed.Start(context.WithoutCancel(ctx), cfg)
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	var all []served
	for i := range clusters {
		c, err := bed.CreateCluster(ctx, cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("c%d", i)}, 1)
		require.NoError(t, err)
		load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 50, Regions: 3, Clients: 1})
		require.NoError(t, err)
		t.Cleanup(func() { _ = load.Close() })
		require.NoError(t, load.Load(ctx))
		all = append(all, served{c, load})
	}
	var after []uint64
	for range rounds {
		after = append(after, heapAfterRound(ctx, t, all))
	}
	t.Logf("heap after each round: %d", after)
	require.Less(t, after[rounds-1], after[0]+allowed, "%d", after)
	require.Less(t, after[rounds-1], uint64(servedMemory))
}

// heapAfterRound moves money in all clusters, drops what is old, and returns what is alive then.
func heapAfterRound(ctx context.Context, t *testing.T, all []served) uint64 {
	t.Helper()
	const transfers = 60
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			run, stop := context.WithCancel(ctx)
			defer stop()
			want := s.load.Counters().Commits + transfers
			var running sync.WaitGroup
			running.Go(func() { assert.NoError(t, s.load.Run(run)) })
			assert.Eventually(t, func() bool { return s.load.Counters().Commits >= want }, time.Minute, 5*time.Millisecond)
			stop()
			running.Wait()
			assert.NoError(t, s.load.Settle(ctx))
		})
	}
	wg.Wait()
	for _, s := range all {
		require.NoError(t, dropOlder(ctx, s.cluster, s.load, 0))
	}
	least := uint64(math.MaxUint64)
	for range 20 { // the Operator works on its objects meanwhile
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		least = min(least, mem.HeapAlloc)
	}
	return least
}
