package workload_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/testbed/disk"
	"github.com/tisnap/tisnap/pkg/testbed/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// client-go waits up to 5 s for a store that was down when the client was closed.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
	)
}

// standIns are a PD and three stores.
type standIns struct {
	pd     *pdtest.Server
	stores []*tikvtest.Store
	faults *fault.Plan
}

func startCluster(t *testing.T) *standIns {
	t.Helper()
	c := &standIns{faults: &fault.Plan{}}
	var err error
	c.pd, err = pdtest.New(pdtest.Config{CoordinatorDelay: 10 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, c.pd.Start())
	t.Cleanup(c.pd.Close)
	network := tikvtest.NewNetwork()
	ctx := within(t, 30*time.Second)
	for i := range 3 {
		s, err := tikvtest.Start(ctx, tikvtest.Config{
			Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: c.pd, Network: network, Seed: int64(i), Faults: c.faults,
			Options: tikvtest.Options{TickInterval: 20 * time.Millisecond, ApplyLag: 2 * time.Millisecond},
		})
		require.NoError(t, err)
		t.Cleanup(s.Kill)
		c.stores = append(c.stores, s)
	}
	require.NoError(t, tikvtest.BootstrapCluster(ctx, c.stores...))
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// start makes a loaded workload on a cluster.
func start(t *testing.T, c *standIns, cfg workload.Config) *workload.Workload {
	t.Helper()
	cfg.PD = c.pd.URLs()
	w, err := workload.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	require.NoError(t, w.Load(within(t, 60*time.Second)))
	return w
}
