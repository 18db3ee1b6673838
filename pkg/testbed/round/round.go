package round

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Tisnap runs the program with these arguments; stdout is what it prints there. A non-zero exit code is not
// an error of the call.
type Tisnap func(ctx context.Context, args []string, stdout io.Writer) (exitCode int, err error)

// Config is one round. Tisnap and Dir are required.
type Config struct {
	Dir      string
	Tisnap   func(bed *testbed.Testbed) Tisnap // not needed with a Driver
	Seed     int64
	Stores   int // 0 is 3
	Nodes    int // 0 is two for each store
	Accounts int // 0 is 2,000
	Regions  int // 0 is 30
	Clients  int // 0 is 8
	// Hot is how many accounts transfers are made between at a time, so that other regions are at rest; 0 is an eighth,
	// or all of them for every fourth seed. Below 0 it is all.
	Hot int
	// BackupFlags and RestoreFlags are given to the program besides.
	BackupFlags, RestoreFlags []string
	// Warns are the beginnings of what the restore may warn of.
	Warns []string
	// Warm is how long the transfers run before the backup; 0 is 300 ms.
	Warm   time.Duration
	Volume cluster.VolumeSpec // of the restored volumes
	Scale  float64
	Faults *fault.Plan
	// Operator is the generation of TiDB Operator that the source is of, 1 or 2; 0 is 1.
	Operator int
	// Kubeconfig is that of a real control plane in place of the testbed's; "" is the testbed's.
	Kubeconfig string
	// HostsFile is the testbed's: PD and the stores are known by the names in it.
	HostsFile string
	// MarkTrouble releases something wrong, by the seed, while the backup reads marks; it needs Faults.
	MarkTrouble bool
	// LogTrouble lets the raft logs of some stores stall, by the seed, while the backup runs; it needs Faults.
	LogTrouble bool
	// Still leaves out the splits and moves of leaders that else happen while the backup runs.
	Still bool
	// Driver backs up and restores instead of Tisnap's command line.
	Driver Driver
	// During runs while the backup does, in the soak's tests: it breaks what a real day breaks.
	During func(ctx context.Context, bed *testbed.Testbed, c *testbed.Cluster)
	// BeforeRestore runs when the source is gone.
	BeforeRestore func(bed *testbed.Testbed)
	// TiKV changes the options of all stores, of the source and of the restored cluster.
	TiKV func(*tikvtest.Options)
	// Rules changes EC2's.
	Rules func(*ebstest.Rules)
	// PD shapes the PDs of both.
	PD pdtest.Config
	// Timeout bounds each wait of the restore; 0 is 1 min.
	Timeout time.Duration
	// Progress receives one line about each thing that happens; nil drops it.
	Progress func(format string, args ...any)
	// Logf takes the testbed's own log; nil drops it.
	Logf func(format string, args ...any)
}

// Driver is another way to back up and to restore than the command line: TiDB Operator's, for one.
type Driver interface {
	// Backup backs up Source and returns the ts that a restore returns to.
	Backup(ctx context.Context, bed *testbed.Testbed) (cluster.TS, error)
	// Restore makes Target of the backup, and returns when it serves.
	Restore(ctx context.Context, bed *testbed.Testbed) error
}

// Names and places of a round.
const (
	Storage  = "s3://" + testbed.Bucket + "/round"
	BackupID = "round-1"
)

var (
	source = cluster.Name{Namespace: "tidb", Name: "prod"}
	target = cluster.Name{Namespace: "tidb", Name: "copy"}
)

// Source is the name of the cluster that is backed up.
func Source() cluster.Name { return source }

// Target is the name of the cluster that is restored.
func Target() cluster.Name { return target }

func (c *Config) defaults() {
	for _, d := range []struct {
		value    *int
		fallback int
	}{{&c.Stores, 3}, {&c.Accounts, 2000}, {&c.Regions, 30}, {&c.Clients, 8}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if c.Nodes == 0 {
		c.Nodes = 2 * c.Stores
	}
	if c.Hot == 0 && c.Seed%4 != 0 {
		c.Hot = max(8, c.Accounts/8)
	}
	if c.Warm == 0 {
		c.Warm = 300 * time.Millisecond
	}
	if c.Volume.Type == "" {
		c.Volume = cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}
	}
	if c.TiKV == nil {
		c.TiKV = func(*tikvtest.Options) {}
	}
	if c.Rules == nil {
		c.Rules = func(*ebstest.Rules) {}
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Progress == nil {
		c.Progress = func(string, ...any) {}
	}
}

// Result is what was verified.
type Result struct {
	BackupTS      cluster.TS
	Rows          int
	Total         int64
	Regions       int
	Commits       int64 // of transfers, up to the end of the load
	During        int64 // of them while the backup ran
	Undetermined  int
	AllocID, Seen uint64
	Volumes       int
	// MarkTrouble is what went wrong while marks were read, Unchanged how many regions the restore did not flash back.
	MarkTrouble string
	LogTrouble  string // how raft logs stalled
	Unchanged   int
	Checks      []string
}

// state is a round under way.
type state struct {
	cfg    Config
	bed    *testbed.Testbed
	run    Tisnap
	load   *workload.Workload
	copy   *workload.Copy
	result Result
}

// Run makes one round. An error names the seed.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.defaults()
	s := &state{cfg: cfg}
	err := s.round(ctx)
	if s.load != nil {
		err = errors.Join(err, s.load.Close())
	}
	if s.bed != nil {
		s.bed.Close()
	}
	if err != nil {
		return &s.result, fmt.Errorf("seed %d: %w", cfg.Seed, err)
	}
	return &s.result, nil
}

func (s *state) round(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.start, s.backup, s.destroy, s.restore, s.verify, s.describe} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start makes the testbed, the source cluster and its rows. Crash positions, lags and latencies follow the seed.
func (s *state) start(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(uint64(s.cfg.Seed), 1))
	ms := func(least, most int) time.Duration {
		return time.Duration(least+rng.IntN(most-least+1)) * time.Millisecond
	}
	rules := ebstest.QuickRules()
	rules.Latency = map[string]ebstest.Span{"CreateSnapshots": {Least: ms(0, 50), Most: ms(100, 1500)}}
	s.cfg.Rules(rules)
	tikv := tikvtest.Options{ApplyLag: ms(0, 60), FlushInterval: ms(20, 400)}
	s.cfg.TiKV(&tikv)
	// The testbed outlives ctx, so that a run that ctx ends can undo what it did.
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: s.cfg.Dir, Nodes: s.cfg.Nodes, Scale: s.cfg.Scale, Seed: s.cfg.Seed, Faults: s.cfg.Faults, Rules: rules,
		TiKV: tikv, PD: s.cfg.PD, Kubeconfig: s.cfg.Kubeconfig, Logf: s.cfg.Logf,
		Operator: s.cfg.Operator, DNSNames: s.cfg.HostsFile != "", HostsFile: s.cfg.HostsFile,
	})
	if err != nil {
		return err
	}
	s.bed = bed
	if s.cfg.Driver == nil {
		s.run, s.cfg.Driver = s.cfg.Tisnap(bed), &commandLine{s}
	}
	c, err := bed.CreateCluster(ctx, source, s.cfg.Stores)
	if err != nil {
		return err
	}
	s.load, err = workload.New(workload.Config{
		PD: c.PD.URLs(), Accounts: s.cfg.Accounts, Clients: s.cfg.Clients, Regions: s.cfg.Regions, Seed: s.cfg.Seed,
		Hot: max(0, s.cfg.Hot),
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := s.load.Load(ctx); err != nil {
		return fmt.Errorf("load accounts: %w", err)
	}
	s.cfg.Progress("cluster %s: %d stores with 2 volumes each, %d accounts in %d regions, loaded in %s",
		source, s.cfg.Stores, s.cfg.Accounts, len(c.Stores()[0].Peers()), time.Since(begin).Round(time.Millisecond))
	db, err := s.load.Cluster(ctx)
	if err != nil {
		return err
	}
	loaded, err := db.Now(ctx)
	if err != nil {
		return err
	}
	return c.AwaitResolved(ctx, loaded)
}

// backup runs the program while transfers, splits and leader moves continue, then copies all rows at the backup
// ts from the live cluster.
func (s *state) backup(ctx context.Context) error {
	c := s.bed.Nodes.Cluster(source)
	loadCtx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	if err := errors.Join(s.troubleMarks(c), s.troubleLogs(loadCtx, c, &wg)); err != nil {
		return err
	}
	var loadErr, churnErr error
	wg.Go(func() { loadErr = s.load.Run(loadCtx) })
	if !s.cfg.Still {
		wg.Go(func() { churnErr = s.load.Churn(loadCtx) })
	}
	if s.cfg.During != nil {
		wg.Go(func() { s.cfg.During(loadCtx, s.bed, c) })
	}
	err := wait.For(ctx, s.cfg.Warm)
	if err == nil {
		before := s.load.Counters().Commits
		s.result.BackupTS, err = s.cfg.Driver.Backup(ctx, s.bed)
		if s.cfg.MarkTrouble || s.cfg.LogTrouble { // it is the backup's: a restore asks its own stores, and refuses where they do not answer
			s.cfg.Faults.Clear()
		}
		s.result.During = s.load.Counters().Commits - before
	}
	if err == nil {
		err = wait.For(ctx, s.cfg.Warm/3) // writes after the backup, which must not come back
	}
	stop()
	wg.Wait()
	if err := errors.Join(err, loadErr, churnErr); err != nil {
		return err
	}
	if err := s.load.Settle(ctx); err != nil {
		return fmt.Errorf("settle transfers: %w", err)
	}
	s.result.Commits = s.load.Counters().Commits
	if s.copy, err = s.load.CopyAt(ctx, s.result.BackupTS); err != nil {
		return fmt.Errorf("copy rows of the live cluster: %w", err)
	}
	s.cfg.Progress("%d transfers were committed, %d of them while the backup ran; %d rows copied from the live cluster at ts %s",
		s.result.Commits, s.result.During, len(s.copy.Rows), s.result.BackupTS)
	return nil
}

func (s *state) destroy(ctx context.Context) error {
	if err := s.load.Close(); err != nil {
		return err
	}
	n, err := s.bed.DestroyCluster(ctx, source)
	if err != nil {
		return err
	}
	s.cfg.Progress("cluster %s and its %d volumes are deleted", source, n)
	if s.cfg.BeforeRestore != nil {
		s.cfg.BeforeRestore(s.bed)
	}
	return nil
}

func (s *state) restore(ctx context.Context) error { return s.cfg.Driver.Restore(ctx, s.bed) }

// describe shows the times of both runs together, as they are stored with the backup.
func (s *state) describe(ctx context.Context) error {
	if s.run == nil {
		return nil
	}
	return s.tisnap(ctx, nil, "describe", BackupID)
}

// largestID is the largest id of a store, region or peer that a cluster's stores hold. Ids that the source gave
// out after the cut are in no snapshot, and may be given out again.
func largestID(c *testbed.Cluster) uint64 {
	var largest uint64
	for _, st := range c.Stores() {
		largest = max(largest, st.ID())
		for _, p := range st.Peers() {
			largest = max(largest, p.Region.GetId(), p.PeerID)
		}
	}
	return largest
}
