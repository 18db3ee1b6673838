package restore_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	restore.PollEvery(100 * time.Millisecond)
	goleak.VerifyTestMain(m)
}

// lab is a testbed with a sealed backup of three stores, whose cluster is gone.
type lab struct {
	bed    *testbed.Testbed
	faults *fault.Plan
	store  *objstoretest.Memory
	kube   *kube.Client
	ebs    *ebs.Client
	tikv   *tikv.Client
	wrap   func(restore.EBS) restore.EBS // nil is EC2 itself
	runs   int
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func newLab(t *testing.T, change ...func(*testbed.Config)) *lab {
	t.Helper()
	l := &lab{faults: &fault.Plan{}, store: objstoretest.NewMemory(nil)}
	ctx := within(t)
	var err error
	config := testbed.Config{
		Dir: t.TempDir(), Faults: l.faults, Scale: 10, TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond},
	}
	for _, f := range change {
		f(&config)
	}
	l.bed, err = testbed.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(l.bed.Close)
	l.kube, err = kube.Open(kube.Config{Kubeconfig: l.bed.Kubeconfig()})
	require.NoError(t, err)
	l.ebs, err = ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: l.bed.AWS()})
	require.NoError(t, err)
	t.Cleanup(l.ebs.Close)
	l.tikv = tikv.Open(tikv.Config{})
	t.Cleanup(l.tikv.Close)
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	c, err := l.bed.CreateCluster(ctx, name, 3)
	require.NoError(t, err)
	oracle, err := pd.Open(ctx, pd.Config{Addresses: c.PD.URLs()})
	require.NoError(t, err)
	defer oracle.Close()
	_, err = backup.Run(ctx, backup.Deps{Kube: l.kube, PD: oracle, TiKV: l.tikv, EBS: l.ebs, Store: l.store}, backup.Options{
		Cluster: name, Backup: "b", Run: "backup", Owner: runlock.Owner{Run: "backup"},
	})
	require.NoError(t, err)
	_, err = l.bed.DestroyCluster(ctx, name)
	require.NoError(t, err)
	return l
}

// target is the cluster that restores are made into.
func target() cluster.Name { return cluster.Name{Namespace: "tidb", Name: "copy"} }

// restore runs a restore into tidb/copy under a run id of its own.
func (l *lab) restore(ctx context.Context, t *testing.T, sink phase.Sink, change func(*restore.Options)) (*restore.Result, error) {
	t.Helper()
	deps, opts := l.next(t, sink)
	if change != nil {
		change(&opts)
	}
	return restore.Run(ctx, deps, opts)
}

// resolve runs a resolve of tidb/copy under a run id of its own.
func (l *lab) resolve(ctx context.Context, t *testing.T) (*restore.Result, error) {
	t.Helper()
	deps, opts := l.next(t, nil)
	return restore.Resolve(ctx, deps, opts)
}

// next is what another run gets. Its connections to PD are closed when the test ends.
func (l *lab) next(t *testing.T, sink phase.Sink) (restore.Deps, restore.Options) {
	t.Helper()
	l.runs++
	run := cluster.RunID(fmt.Sprintf("restore-%d", l.runs))
	deps := restore.Deps{
		Kube: l.kube, EBS: l.ebs, TiKV: l.tikv, Store: l.store, Sink: sink,
		OpenPD: func(ctx context.Context, addresses []string) (restore.PD, error) {
			p, err := pd.Open(ctx, pd.Config{Addresses: addresses})
			if err != nil {
				return nil, err
			}
			t.Cleanup(p.Close)
			return p, nil
		},
	}
	if l.wrap != nil {
		deps.EBS = l.wrap(deps.EBS)
	}
	return deps, restore.Options{
		Backup: "b", Target: target(), Run: run, Owner: runlock.Owner{Run: run}, Timeout: time.Minute, Visibility: 2 * time.Second,
	}
}

// volumes lists the volumes that restores made, not the nodes' own.
func (l *lab) volumes() []ebs.Volume {
	return slices.DeleteFunc(l.bed.EC2.Volumes(), func(v ebs.Volume) bool { return v.Tags[ebs.TagRun] == "" })
}

// nothingLeft proves that neither a volume nor a cluster of a restore is there.
func (l *lab) nothingLeft(t *testing.T) {
	t.Helper()
	require.Empty(t, l.volumes(), "volumes are left")
	require.Nil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"), "the cluster is left")
	require.Empty(t, l.bed.Kube.List("persistentvolumeclaims", "tidb"), "PVCs are left")
}

// cancelAt ends the run when a step begins, or at another of its events.
type cancelAt struct {
	step   string
	at     phase.EventType // "" is phase.StepStarted
	cancel context.CancelFunc
	hit    bool
	mu     sync.Mutex
}

// Emit implements phase.Sink.
func (c *cancelAt) Emit(e phase.Event) {
	if e.Type == cmp.Or(c.at, phase.StepStarted) && e.Step == c.step {
		c.mu.Lock()
		c.hit = true
		c.mu.Unlock()
		c.cancel()
	}
}
