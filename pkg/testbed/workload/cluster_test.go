package workload_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// client-go waits up to 5 s for a store that was down when the client was closed.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
		goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).recreateStreamingClient"),
	)
}

// standIns are a PD and three stores.
type standIns struct {
	pd      *pdtest.Server
	network *tikvtest.Network
	stores  []*tikvtest.Store
	devices [][2]*disk.Device // data and raft log of each store
	faults  *fault.Plan
}

func startPD(t *testing.T) *standIns {
	t.Helper()
	c := &standIns{faults: &fault.Plan{}, network: tikvtest.NewNetwork()}
	var err error
	c.pd, err = pdtest.New(pdtest.Config{CoordinatorDelay: 10 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, c.pd.Start())
	t.Cleanup(c.pd.Close)
	return c
}

func (c *standIns) startStore(t *testing.T, data, raftLog *disk.Device) {
	t.Helper()
	s, err := tikvtest.Start(within(t, 30*time.Second), tikvtest.Config{
		Data: data, RaftLog: raftLog, PD: c.pd, Network: c.network, Seed: int64(len(c.stores)), Faults: c.faults,
		Options: tikvtest.Options{
			TickInterval: 20 * time.Millisecond, ApplyLag: 2 * time.Millisecond, RecoverCheckInterval: 200 * time.Millisecond,
			StoreHeartbeatInterval: 100 * time.Millisecond, RegionHeartbeatInterval: 200 * time.Millisecond,
		},
	})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	c.stores = append(c.stores, s)
	c.devices = append(c.devices, [2]*disk.Device{data, raftLog})
}

func startCluster(t *testing.T) *standIns {
	t.Helper()
	c := startPD(t)
	for range 3 {
		c.startStore(t, disk.New(1<<30), disk.New(1<<30))
	}
	require.NoError(t, tikvtest.BootstrapCluster(within(t, 30*time.Second), c.stores...))
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
