package operator_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/crash"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/tests/operator"
)

// world is a testbed with a Backup whose rows are known and whose cluster is gone. One restore after another is made of it.
type world struct {
	place

	load *workload.Workload
	ts   cluster.TS
	n    int // of targets made
}

// newWorld makes the Backup under load, so that its snapshots hold rows later than its ts.
func newWorld(t *testing.T) *world {
	t.Helper()
	program, err := shipped.BR()
	require.NoError(t, err)
	w := &world{place: place{faults: &fault.Plan{}}}
	rules := ebstest.QuickRules()
	// A credit of fast snapshot restore takes minutes of the program's own clock.
	rules.FastRestore = ebstest.FastRestoreRules{Snapshots: 100, IDsInCall: 10, Aged: 30 * 24 * time.Hour}
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Nodes: 6, Scale: 50, Faults: w.faults, Rules: rules,
		TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond, TickInterval: 40 * time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	w.Operator = &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program, RestoreOptions: []string{"--use-fsr=true"}}
	c, err := bed.CreateCluster(within(t), cluster.Name{Namespace: "tidb", Name: "prod"}, 3)
	require.NoError(t, err)
	w.load, err = workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 200, Clients: 2, Regions: 6, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.load.Close() })
	require.NoError(t, w.load.Load(within(t)))
	w.backUp(t, c)
	return w
}

// backUp takes the Backup while transfers are made, and destroys the cluster.
func (w *world) backUp(t *testing.T, c *testbed.Cluster) {
	t.Helper()
	db, err := w.load.Cluster(within(t))
	require.NoError(t, err)
	loaded, err := db.Now(within(t))
	require.NoError(t, err)
	require.NoError(t, c.AwaitResolved(within(t), loaded))
	ctx, stop := context.WithCancel(within(t))
	var transfers sync.WaitGroup
	transfers.Go(func() { err = w.load.Run(ctx) })
	ts, backupErr := w.Backup(within(t), c.Name)
	stop()
	transfers.Wait()
	require.NoError(t, backupErr)
	require.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
	require.NoError(t, w.load.Settle(within(t)))
	require.NoError(t, w.load.Close())
	w.ts = ts
	_, err = w.Bed.DestroyCluster(within(t), c.Name)
	require.NoError(t, err)
}

// newTarget makes the cluster of the next restore.
func (w *world) newTarget(t *testing.T) {
	t.Helper()
	w.n++
	w.target = cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", w.n)}
	require.NoError(t, w.CreateTarget(within(t), w.target, 3))
}

// killedAt starts a half of the restore, and requires that it is killed at the cell and has not reported that it is done.
func (w *world) killedAt(t *testing.T, h half, cell crash.Cell) {
	t.Helper()
	started := make(chan *operator.Run, 1)
	trap := crash.NewTrap(cell, func(s syscall.Signal) {
		r := <-started
		started <- r
		if s == syscall.SIGKILL {
			_ = r.Kill() // it may have ended at this moment
			return
		}
		_ = r.Signal()
	})
	w.faults.Watch(trap.Watch)
	defer w.faults.Watch(nil)
	run, _, err := h.begin(&w.place)(within(t), w.target)
	require.NoError(t, err)
	started <- run
	require.ErrorContains(t, run.Wait(), "signal: killed")
	require.True(t, trap.Hit())
	require.False(t, run.Printed("EBS restore success"))
}

// expireLocks ends the locks of processes that were killed, as a minute does.
func (w *world) expireLocks(t *testing.T) {
	t.Helper()
	store, err := w.Storage(within(t))
	require.NoError(t, err)
	locks, err := store.List(within(t), manifest.LocksPrefix)
	require.NoError(t, err)
	for _, o := range locks {
		namespace, name, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(o.Key, manifest.LocksPrefix), ".json"), ".")
		require.True(t, ok, o.Key)
		of := cluster.Name{Namespace: namespace, Name: name}
		lock, _, err := runlock.Read(within(t), store, of)
		require.NoError(t, err)
		require.NoError(t, runlock.Break(within(t), store, of, lock.Epoch))
	}
}

// requireRestored proves that the restored cluster has the rows of the backup ts, that nothing of it is held, and that EC2 has
// nothing but what the Backup and the cluster name once gc was there. Then it removes the cluster.
func (w *world) requireRestored(t *testing.T, handedOver bool) {
	t.Helper()
	c := w.Bed.Nodes.Cluster(w.target)
	db, err := workload.Connect(within(t), c.PD.URLs())
	require.NoError(t, err)
	defer func() { _ = db.Close() }() // only read from
	got, err := w.load.History().VerifyRestored(within(t), db, w.ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 200)
	require.Empty(t, c.Held())
	require.False(t, c.PD.Recovering())
	report := w.gc(t)
	w.deleteByHand(t, report, handedOver)
	store, err := w.Storage(within(t))
	require.NoError(t, err)
	ctx := within(t)
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		assert.NoError(collect, leak.Balance(ctx, w.Bed, store))
	}, 30*time.Second, 50*time.Millisecond, report)
	_, err = w.Bed.DestroyCluster(within(t), w.target)
	require.NoError(t, err)
}

// deleteByHand deletes the volumes that gc leaves to a person: those of a run that was killed when it had begun to
// hand them over, which from then on may or may not be bound. Of another run there may be none.
func (w *world) deleteByHand(t *testing.T, report string, handedOver bool) {
	t.Helper()
	for line := range strings.Lines(report) {
		if !strings.Contains(line, "delete it by hand") {
			continue
		}
		require.True(t, handedOver, line)
		volume := regexp.MustCompile(`vol-\w+`).FindString(line)
		require.NoError(t, w.Bed.EC2.DeleteVolumeDirect(cluster.VolumeID(volume)), line)
	}
}
