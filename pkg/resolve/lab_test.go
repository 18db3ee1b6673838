package resolve_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// patience bounds one test's wait for the stand-ins.
const patience = 4 * time.Minute

// original is a cluster under load that was cut: copies of its volumes of slightly different times.
type original struct {
	ts      cluster.TS
	images  [][]*disk.Image
	history *workload.History
}

// lab is a restored cluster in recovery mode, before it is resolved.
type lab struct {
	pd            *pdtest.Server
	network       *tikvtest.Network
	faults        *fault.Plan
	oracle        *pd.Client
	client        *tikv.Client
	checkInterval time.Duration // of RecoverRegion, of its regions; zero is TiKV's 10 s
	amidCuts      func()        // runs when one store is cut; nil is nothing
	lastCut       func()        // runs when all but one are cut; nil is nothing

	mu      sync.Mutex
	stores  []*tikvtest.Store
	devices [][2]*disk.Device
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func newLab(t *testing.T, members int) *lab {
	t.Helper()
	l := &lab{faults: &fault.Plan{}, network: tikvtest.NewNetwork()}
	var err error
	l.pd, err = pdtest.New(pdtest.Config{
		Members: members, Faults: l.faults, CoordinatorDelay: 10 * time.Millisecond, ElectionTimeout: time.Second,
	})
	require.NoError(t, err)
	require.NoError(t, l.pd.Start())
	t.Cleanup(l.pd.Close)
	l.oracle, err = pd.Open(within(t), pd.Config{Addresses: l.pd.URLs()})
	require.NoError(t, err)
	t.Cleanup(l.oracle.Close)
	l.client = tikv.Open(tikv.Config{})
	t.Cleanup(l.client.Close)
	return l
}

// start starts store number i on its devices; it is killed when the test ends.
func (l *lab) start(t *testing.T, i int) {
	t.Helper()
	s, err := tikvtest.Start(within(t), tikvtest.Config{
		Data: l.devices[i][0], RaftLog: l.devices[i][1], PD: l.pd, Network: l.network, Seed: int64(i), Faults: l.faults,
		Options: tikvtest.Options{
			TickInterval: 20 * time.Millisecond, ApplyLag: 2 * time.Millisecond, RecoverCheckInterval: l.checkInterval,
			StoreHeartbeatInterval: 100 * time.Millisecond, RegionHeartbeatInterval: 200 * time.Millisecond,
		},
	})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(l.stores) {
		l.stores[i] = s
		return
	}
	l.stores = append(l.stores, s)
}

// bounce kills store number i and starts it again, on another port.
func (l *lab) bounce(t *testing.T, i int) {
	t.Helper()
	l.mu.Lock()
	s := l.stores[i]
	l.mu.Unlock()
	s.Kill()
	l.start(t, i)
}

// makeOriginal loads a cluster, lets transfers, splits and leader moves run, and cuts it under a hold.
func makeOriginal(t *testing.T, tune ...func(*lab)) *original {
	t.Helper()
	l := newLab(t, 1)
	for _, f := range tune {
		f(l)
	}
	for i := range 3 {
		l.devices = append(l.devices, [2]*disk.Device{disk.New(1 << 30), disk.New(1 << 30)})
		l.start(t, i)
	}
	require.NoError(t, tikvtest.BootstrapCluster(within(t), l.stores...))
	w, err := workload.New(workload.Config{PD: l.pd.URLs(), Accounts: 500, Clients: 6, Regions: 12, Interval: 20 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	require.NoError(t, w.Load(within(t)))
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	var running sync.WaitGroup
	for _, f := range []func(context.Context) error{w.Run, w.Churn} {
		running.Go(func() {
			if err := f(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	require.Eventually(t, func() bool { return w.Counters().Commits > 200 }, patience, 5*time.Millisecond)
	o := &original{history: w.History()}
	l.cut(t, w, o)
	for _, s := range l.stores {
		s.ResumeLog()
	}
	stop()
	running.Wait()
	require.NoError(t, w.Settle(within(t)))
	for _, s := range l.stores {
		s.Kill()
	}
	return o
}

// cut holds the cluster, takes a resolved ts, and copies the stores one after the other.
func (l *lab) cut(t *testing.T, w *workload.Workload, o *original) {
	t.Helper()
	ctx := within(t)
	var leases []tikv.Lease
	for _, s := range l.stores {
		lease, err := l.client.OpenLease(ctx, s.Addr())
		require.NoError(t, err)
		defer lease.Close()
		_, err = lease.Renew(ctx, time.Minute)
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	require.Eventually(t, func() bool { return l.quiet(ctx, t, leases) }, patience, 10*time.Millisecond)
	now, err := l.oracle.Now(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		resolved, err := l.oracle.ResolvedTS(ctx)
		o.ts = resolved.TS
		return err == nil && resolved.TS > now
	}, patience, 20*time.Millisecond)
	for i, d := range l.devices {
		if i == 1 && l.amidCuts != nil {
			l.amidCuts()
		}
		if i == 2 && l.lastCut != nil {
			l.lastCut()
		}
		o.images = append(o.images, disk.Cut(d[0], d[1]))
		next := w.Counters().Commits + 10 // the transfers continue between the cuts
		require.Eventually(t, func() bool { return w.Counters().Commits >= next }, patience, 5*time.Millisecond)
	}
	for _, lease := range leases {
		valid, err := lease.Finish(ctx)
		require.NoError(t, err)
		require.True(t, valid)
	}
}

// quiet reports whether no split is pending and all leaders have applied.
func (l *lab) quiet(ctx context.Context, t *testing.T, leases []tikv.Lease) bool {
	t.Helper()
	regions, err := l.oracle.Regions(ctx, cluster.KeyRange{})
	require.NoError(t, err)
	for i, s := range l.stores {
		_, pending, err := l.client.LedRegions(ctx, s.Addr())
		require.NoError(t, err)
		led := slices.DeleteFunc(slices.Clone(regions), func(r cluster.Region) bool { return uint64(r.Leader.Store) != s.ID() })
		failed, err := leases[i].WaitApply(ctx, led)
		require.NoError(t, err)
		if len(pending)+len(failed) > 0 {
			return false
		}
	}
	return true
}

// restoreLab starts stores on the copies, as a restore does before it resolves.
func restoreLab(t *testing.T, o *original, members int, tune ...func(*lab)) *lab {
	t.Helper()
	l := newLab(t, members)
	for _, f := range tune {
		f(l)
	}
	require.NoError(t, l.oracle.MarkRecovering(within(t)))
	require.NoError(t, l.oracle.RaiseTS(within(t), o.ts+cluster.TS(time.Hour.Milliseconds())<<18))
	for i, pair := range o.images {
		var devices [2]*disk.Device
		for k := range devices {
			var err error
			devices[k], err = disk.FromImage(pair[k], pair[k].Size())
			require.NoError(t, err)
		}
		l.devices = append(l.devices, devices)
		l.start(t, i)
	}
	return l
}

// quickChecks makes RecoverRegion answer soon, and yet later than in the second in which the stores started:
// PD shows a restart by whole seconds.
func quickChecks(l *lab) { l.checkInterval = 1500 * time.Millisecond }

// config is a resolve of all stores to the original's ts.
func (l *lab) config(o *original, run cluster.RunID) resolve.Config {
	cfg := resolve.Config{
		Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: run, BackupTS: o.ts, AllocID: 5000, Stall: 20 * time.Second,
		WaitApply: l.checkInterval > 0,
	}
	for _, s := range l.stores {
		cfg.Stores = append(cfg.Stores, cluster.StoreID(s.ID()))
	}
	return cfg
}

// run carries out the resolver's steps; before holds what happens just before a step.
func (l *lab) run(t *testing.T, cfg resolve.Config, before map[string]func()) (*resolve.Resolver, error) {
	t.Helper()
	r := resolve.New(l.client, nil)
	r.Target(cfg, l.oracle)
	t.Cleanup(func() { _ = r.Thaw(t.Context(), nil) }) // ends what keeps PD frozen; PD itself goes with the test
	steps := r.Steps("resolve data", resolve.StepOptions{})
	for name, f := range before {
		i := slices.IndexFunc(steps, func(s phase.Step) bool { return s.Name == name })
		require.GreaterOrEqual(t, i, 0, "there is no step %s", name)
		do := steps[i].Do
		steps[i].Do = func(ctx context.Context, s *phase.Scope) error {
			f()
			return do(ctx, s)
		}
	}
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/"+string(cfg.Run))
	return r, phase.New(phase.Config{Run: cfg.Run, Journal: journal}).Run(within(t), steps)
}

// verify proves that the rows are exactly those at the backup ts.
func (l *lab) verify(t *testing.T, o *original) {
	t.Helper()
	conn, err := workload.Connect(within(t), l.pd.URLs())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	got, err := o.history.VerifyRestored(within(t), conn, o.ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 500)
	require.Equal(t, o.history.Total(), got.Total)
}
