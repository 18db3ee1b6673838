package ebs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// firstCut is the number of the first CreateSnapshots call that is not preflight's probe.
const firstCut = 2

// live is a running cluster of two volumes a store, and what a backup of it needs. EC2 and the adapter's waits
// run on one scaled clock; leases of PD and TiKV are real.
type live struct {
	*testbed.Testbed
	c      *testbed.Cluster
	faults *fault.Plan
	deps   backup.Deps
	calls  *watchedEBS
	client *ebs.Client
	warned *warnings
	runs   int
	scale  float64
}

var liveName = cluster.Name{Namespace: "tidb", Name: "prod"}

// newLive starts a cluster of so many stores without raft; change may alter the testbed.
func newLive(t *testing.T, stores int, scale float64, change ...func(*testbed.Config)) *live {
	t.Helper()
	l := &live{faults: &fault.Plan{}, scale: scale}
	cfg := testbed.Config{
		Dir: t.TempDir(), Nodes: stores, Scale: scale, Seed: 1, Faults: l.faults, Rules: ebstest.QuickRules(), StaticRegions: 4,
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // 150 stores, on a machine that is busy
	defer cancel()
	var err error
	l.Testbed, err = testbed.Start(context.WithoutCancel(ctx), cfg)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	l.c, err = l.CreateCluster(ctx, liveName, stores)
	require.NoError(t, err)

	k, err := kube.Open(kube.Config{Kubeconfig: l.Kubeconfig()})
	require.NoError(t, err)
	p, err := pd.Open(ctx, pd.Config{Addresses: l.c.PD.URLs()})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	e, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: l.AWS(), Clock: timescale.New(scale)})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	kv := tikv.Open(tikv.Config{})
	t.Cleanup(kv.Close)
	l.calls, l.warned, l.client = &watchedEBS{EBS: e}, &warnings{}, e
	l.deps = backup.Deps{Kube: k, PD: p, TiKV: kv, EBS: l.calls, Store: objstoretest.NewMemory(nil), Sink: l.warned}
	return l
}

// watchedEBS is the real adapter; a test may act when the wait asks for the snapshots.
type watchedEBS struct {
	backup.EBS
	describe func()
}

func (w *watchedEBS) DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	if w.describe != nil {
		w.describe()
	}
	return w.EBS.DescribeSnapshots(ctx, ids)
}

// warnings are what a run warned of before it continued.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// Emit keeps warnings alone.
func (w *warnings) Emit(e phase.Event) {
	if e.Type == phase.Warning {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lines = append(w.lines, e.Message)
	}
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// options are those of the next run.
func (l *live) options() backup.Options {
	l.runs++
	run := cluster.RunID(fmt.Sprintf("run-%d", l.runs))
	return backup.Options{
		Cluster: liveName, Backup: cluster.BackupID(fmt.Sprintf("b-%d", l.runs)), Run: run, Tool: "test",
		Owner:   runlock.Owner{Run: run, Host: "here", PID: 1, Command: "backup"},
		MaxHold: 30 * time.Second, Lease: 10 * time.Second, Timeout: time.Minute, Visibility: 5 * time.Second, HoldAttempts: 1,
	}
}

func (l *live) backup(t *testing.T, o backup.Options) (*backup.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return backup.Run(ctx, l.deps, o)
}

// real is how long a virtual time takes on this machine.
func (l *live) real(virtual time.Duration) time.Duration {
	return time.Duration(float64(virtual) / l.scale)
}

func (l *live) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, l.faults.Add(r))
}

// sealed requires a sealed backup of exactly one snapshot of each volume, all tagged by the run, and no hold.
func (l *live) sealed(t *testing.T, o backup.Options, r *backup.Result, err error) {
	t.Helper()
	require.NoError(t, err)
	require.True(t, r.Sealed)
	require.NoError(t, l.stored(t, manifest.SealKey(o.Backup)))
	want := l.Volumes(liveName)
	var got []cluster.VolumeID
	for _, p := range l.EC2.Snapshots() {
		if p.Tags[ebs.TagRun] == string(o.Run) {
			got = append(got, p.Volume)
		} else {
			require.NotEmpty(t, p.Tags[ebs.TagRun], "a snapshot of no known run: %s", p.ID)
		}
	}
	require.ElementsMatch(t, want, got)
	require.Empty(t, l.c.Held())
	require.Empty(t, l.faults.Unreached())
}

// leftNothing requires that a run that failed left no hold, no seal and none of its snapshots.
func (l *live) leftNothing(t *testing.T, o backup.Options) {
	t.Helper()
	require.Empty(t, l.c.Held())
	require.Empty(t, l.snapshotsOf(o))
	require.Equal(t, failure.NotFound, failure.KindOf(l.stored(t, manifest.SealKey(o.Backup))))
	require.Empty(t, l.faults.Unreached())
}

func (l *live) snapshotsOf(o backup.Options) []ebs.Snapshot {
	var out []ebs.Snapshot
	for _, p := range l.EC2.Snapshots() {
		if p.Tags[ebs.TagRun] == string(o.Run) {
			out = append(out, p)
		}
	}
	return out
}

func (l *live) stored(t *testing.T, key string) error {
	t.Helper()
	_, _, err := l.deps.Store.Get(t.Context(), key)
	return err
}

// collected requires that gc deletes all snapshots, as soon as EC2 shows them.
func (l *live) collected(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := gc.Collect(t.Context(), gc.Deps{EBS: l.client, Store: l.deps.Store}, gc.Options{Rate: 100})
		require.NoError(t, err)
		return len(l.EC2.Snapshots()) == 0
	}, 30*time.Second, 200*time.Millisecond, "left in the account")
}
