package operator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/tests/operator"
)

// newSource is a testbed with a cluster that serves and has no Backup.
func newSource(t *testing.T) (*place, cluster.Name) {
	t.Helper()
	program, err := shipped.BR()
	require.NoError(t, err)
	p := &place{faults: &fault.Plan{}}
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Faults: p.faults, Scale: 10})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	p.Operator = &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program}
	source := cluster.Name{Namespace: "tidb", Name: "prod"}
	_, err = bed.CreateCluster(within(t), source, 3)
	require.NoError(t, err)
	return p, source
}

// It kills the Job of the phase execute at each stage (its manager hands SIGTERM on to no backup), and deletes the Backup: the
// Operator's clean Job deletes the snapshots by what `rclone copy PREFIX/backupmeta` brings, and then all of the storage.
// Catalogue: C8.
func TestExecuteKilled_CleanJobDeletesAllSnapshots(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p, source := newSource(t)
	for name, stage := range map[string]struct {
		signal, kill string // the points of SIGTERM, if any, and of SIGKILL
		restorable   bool   // for the Operator: there is a backupmeta
	}{
		"before the cut is proven":        {kill: "journal.begin.release"},
		"before the backupmeta":           {kill: "journal.begin.record"},
		"while the snapshots are pending": {kill: "journal.begin.wait", restorable: true},
		"before the seal":                 {kill: "journal.begin.seal", restorable: true},
		"while its snapshots are deleted": {signal: "journal.begin.wait", kill: "ec2.DeleteSnapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Place = "backup-" + stage.kill + stage.signal
			holder, err := p.Initialize(within(t), source)
			require.NoError(t, err)
			p.killExecute(t, source, stage.signal, stage.kill)
			require.NoError(t, holder.Terminate())
			require.NotEmpty(t, p.Bed.EC2.Snapshots())
			_, err = p.Download(within(t), "backupmeta")
			require.Equal(t, stage.restorable, err == nil, "%v", err)

			found, err := p.CleanBackup(within(t))
			require.NoError(t, err)
			require.True(t, found)
			require.Empty(t, p.Bed.EC2.Snapshots())
		})
	}
}

// It kills it in the cut, when no record has all snapshots: the clean Job finds no document, so that it leaves the journal
// with all else, by which gc deletes the snapshots.
// Catalogue: C8.
func TestExecuteKilledInTheCut_CleanJobLeavesAllToGC(t *testing.T) {
	t.Parallel()
	p, source := newSource(t)
	holder, err := p.Initialize(within(t), source)
	require.NoError(t, err)
	p.killExecute(t, source, "journal.begin.cut", "ec2.CreateSnapshots")
	require.NoError(t, holder.Terminate())
	found, err := p.CleanBackup(within(t))
	require.NoError(t, err)
	require.False(t, found)
	store, err := p.Storage(within(t))
	require.NoError(t, err)
	records, err := store.List(within(t), manifest.RunsPrefix)
	require.NoError(t, err)
	require.NotEmpty(t, records)
}

// killExecute runs the phase execute, terminates br at one point and kills it at another one, after that.
func (p *place) killExecute(t *testing.T, source cluster.Name, signal, kill string) {
	t.Helper()
	started := make(chan *operator.Run, 1)
	var signalled, slowed, killed atomic.Bool
	signalled.Store(signal == "")
	p.faults.Watch(func(point string) *fault.Rule {
		if signal == "journal.begin.wait" && signalled.Load() && point == "ec2.DescribeSnapshots" && slowed.CompareAndSwap(false, true) {
			return &fault.Rule{Position: fault.Slow, Delay: 3 * time.Second} // they complete after the signal
		}
		if point != signal && (point != kill || !signalled.Load()) {
			return nil
		}
		r := <-started
		started <- r
		switch {
		case point == signal && signalled.CompareAndSwap(false, true):
			if point != "journal.begin.cut" { // which only marks the calls from now on as the cut's
				_ = r.Signal() // it may have ended at this moment
			}
		case point == kill && killed.CompareAndSwap(false, true):
			_ = r.Kill()
			return &fault.Rule{Position: fault.Stall}
		}
		return nil
	})
	run, err := p.BeginExecute(within(t), source)
	require.NoError(t, err)
	started <- run
	require.Error(t, run.Wait())
	p.faults.Watch(nil)
	require.True(t, killed.Load())
}
