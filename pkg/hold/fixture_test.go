package hold_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is the shortest that a hold takes; it is renewed once a second.
const lease = 3 * time.Second

var name = cluster.Name{Namespace: "tidb", Name: "prod"}

// rig is a cluster of stand-ins, and the adapters to it.
type rig struct {
	server *pdtest.Server
	stores []*tikvtest.Store
	faults *fault.Plan
	pd     *pd.Client
	tikv   *tikv.Client
	holder tikv.Holder // nil is tikv
	splits int
}

func newRig(t *testing.T, change ...func(*pdtest.Config)) *rig {
	t.Helper()
	r := &rig{faults: &fault.Plan{}}
	ctx := within(t, 60*time.Second)
	var err error
	cfg := pdtest.Config{CoordinatorDelay: 10 * time.Millisecond, Faults: r.faults}
	for _, f := range change {
		f(&cfg)
	}
	r.server, err = pdtest.New(cfg)
	require.NoError(t, err)
	require.NoError(t, r.server.Start())
	t.Cleanup(r.server.Close)
	network := tikvtest.NewNetwork()
	for i := range int64(3) {
		s, err := tikvtest.Start(ctx, tikvtest.Config{
			Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: r.server, Network: network, Seed: i, Faults: r.faults,
			Options: tikvtest.Options{
				TickInterval: 20 * time.Millisecond, StoreHeartbeatInterval: 100 * time.Millisecond,
				RegionHeartbeatInterval: 200 * time.Millisecond,
			},
		})
		require.NoError(t, err)
		t.Cleanup(s.Kill)
		r.stores = append(r.stores, s)
	}
	require.NoError(t, tikvtest.BootstrapRegions(ctx, r.stores, []byte("b"), []byte("m"), []byte("x")))
	require.Eventually(t, func() bool { return len(r.server.Schedulers()) > 0 }, 30*time.Second, 5*time.Millisecond)
	r.pd, err = pd.Open(ctx, pd.Config{Addresses: r.server.URLs()})
	require.NoError(t, err)
	t.Cleanup(r.pd.Close)
	r.tikv = tikv.Open(tikv.Config{})
	t.Cleanup(r.tikv.Close)
	return r
}

// newHold makes a hold whose end the test's end asks for.
func (r *rig) newHold(t *testing.T, change ...func(*hold.Config)) *hold.Hold {
	t.Helper()
	cfg := hold.Config{Cluster: name, Run: "run-1", Lease: lease, MaxHold: time.Minute}
	for _, s := range r.stores {
		cfg.Stores = append(cfg.Stores, hold.Target{ID: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	for _, f := range change {
		f(&cfg)
	}
	holder := tikv.Holder(r.tikv)
	if r.holder != nil {
		holder = r.holder
	}
	h, err := hold.New(cfg, r.pd, holder)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, _ = h.Release(ctx) // ends its goroutines also where the test failed; tests look at their own Release
	})
	return h
}

// acquire takes the whole hold, at a GC safe point of now.
func (r *rig) acquire(ctx context.Context, h *hold.Hold) error {
	ts, err := r.pd.Now(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		h.Connect, h.PauseScheduling, h.PauseStores, func(ctx context.Context) error { return h.PauseGC(ctx, ts) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// held is a cluster under a whole hold.
func held(t *testing.T, change ...func(*hold.Config)) (*rig, *hold.Hold) {
	t.Helper()
	r := newRig(t)
	h := r.newHold(t, change...)
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	return r, h
}

// left lists what is paused in PD and on the stores that run. Looking changes nothing.
func (r *rig) left(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, s := range r.server.Schedulers() {
		if !s.ResumeAt.IsZero() {
			out = append(out, "scheduler "+s.Name)
		}
	}
	for item := range r.server.TTLConfigs() {
		out = append(out, "limit "+item)
	}
	for service := range r.server.ServiceSafePoints() {
		if service != "gc_worker" {
			out = append(out, "safe point "+service)
		}
	}
	for _, s := range r.stores {
		select {
		case <-s.Done():
			continue
		default:
		}
		if s.LeaseLeft() > 0 {
			out = append(out, fmt.Sprintf("lease of store %d", s.ID()))
		}
		if s.ImportsDeniedFor() > 0 {
			out = append(out, fmt.Sprintf("imports of store %d", s.ID()))
		}
	}
	return out
}

// requireFree proves that nothing is paused any more: not in PD, and regions of every store split again.
func (r *rig) requireFree(t *testing.T) {
	t.Helper()
	require.Empty(t, r.left(t))
	r.splits++
	for _, led := range []string{"a", "c", "n"} { // in the regions that were led by the first, second and third store
		require.NoError(t, tikvtest.SplitAt(within(t, 5*time.Second), r.stores, fmt.Appendf(nil, "%s%d", led, r.splits)))
	}
}

// broken waits until the hold breaks and returns why.
func broken(t *testing.T, h *hold.Hold) error {
	t.Helper()
	ctx, cancel := h.Context(t.Context())
	defer cancel()
	select {
	case <-ctx.Done():
	case <-within(t, time.Minute).Done():
		require.Fail(t, "the hold did not break")
	}
	err := context.Cause(ctx)
	require.ErrorIs(t, err, hold.ErrBroken)
	return err
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func (r *rig) fault(t *testing.T, rule fault.Rule) {
	t.Helper()
	require.NoError(t, r.faults.Add(rule))
}
