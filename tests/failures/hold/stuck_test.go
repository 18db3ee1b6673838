package hold_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/wait"
)

// A part of the hold that never becomes ready ends by a deadline that names it.
// https://github.com/pingcap/tidb-operator/issues/5455
// Catalogue: A5.
func TestWorkerNeverReady_EndsByADeadline(t *testing.T) {
	t.Parallel()
	for name, point := range map[string]string{
		"a store never applies":          "tikv.*.PrepareSnapshotBackup.WaitApply.Region",
		"a store never takes the lease":  "tikv.*.PrepareSnapshotBackup.UpdateLease",
		"a store never denies imports":   "tikv.*.SuspendImportRPC",
		"PD never answers":               "pd.PauseScheduler",
		"EC2 never answers":              "ec2.CreateSnapshots",
		"the journal's store is no more": "s3.PutObject",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3)
			rule := fault.Rule{Point: point, Position: fault.Stall}
			switch point {
			case "ec2.CreateSnapshots":
				rule.Nth = firstCut
			case "s3.PutObject": // from the first pause on, so that it is the cut's own intent that is not written
				p.watchOnce(t, "tikv.*.PrepareSnapshotBackup.WaitApply.Region", func() {
					if err := p.faults.Add(fault.Rule{Point: point, Position: fault.Stall, Times: 3}); err != nil {
						t.Error(err)
					}
				})
			}
			if point != "s3.PutObject" {
				p.fault(t, rule)
			}
			e := p.backup(t, "--max-hold", "4s")
			p.reached(t)
			require.Equal(t, exitLimited, e.code, e.String())
			require.Contains(t, e.stderr, "4s", "the deadline is named")
			p.leftNothing(t)
		})
	}
}

// watchOnce calls a function at the first call of a point.
func (p *place) watchOnce(t *testing.T, point string, do func()) {
	t.Helper()
	var once sync.Once
	p.watch(t, point, func() { once.Do(do) })
}

// Stores whose stream breaks while their logs are applied end the run at once, and all leases with it.
// https://github.com/pingcap/tidb-operator/issues/5583
// Catalogue: A6.
func TestStreamsLostInWaitApply_LeasesAreReleased(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 5)
	require.NoError(t, p.c.SplitAt(within(t, 30*time.Second), []byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e")))
	p.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply", Code: "Unavailable", Times: -1})
	e := p.backup(t, append(attempts(1), "--max-hold", "20m", "--timeout", "30m")...) // backup itself ends before
	p.reached(t)
	require.NotZero(t, e.code, e.String())
	require.NotEqual(t, exitHeld, e.code, e.String())
	require.Contains(t, e.stderr, "wait apply", "it did not wait for --max-hold")
	p.leftNothing(t)
}

// A store that never answers keeps no other store paused: all are connected to first.
// https://github.com/pingcap/tidb/issues/51448
// Catalogue: A9.
func TestOneStoreIsABlackHole_NoStoreIsPaused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3)
	p.fault(t, fault.Rule{Point: "tikv." + id(p.c.Stores()[2]) + ".PrepareSnapshotBackup", Position: fault.Stall, Times: -1})
	p.fault(t, fault.Rule{Point: "tikv." + id(p.c.Stores()[2]) + ".CheckPendingAdminOp", Position: fault.Stall, Times: -1})
	before := p.paused()
	e := p.backup(t)
	require.NotZero(t, e.code, e.String())
	require.Contains(t, e.stderr, p.c.Stores()[2].Addr())
	require.ElementsMatch(t, before, p.paused(), "something was paused, or even resumed")
	p.leftNothing(t)
}

// paused lists the calls that changed PD and the stores, except for the record of early apply, which pauses nothing.
func (p *place) paused() []string {
	calls := slices.DeleteFunc(p.c.PD.MutatingCalls(), func(call string) bool { return call == "EtcdTxn /tisnap/early-apply" })
	for _, s := range p.c.Stores() {
		calls = append(calls, s.MutatingCalls()...)
	}
	return calls
}

// While stores restart one after the other, the hold is tried again, and succeeds when the last one is up; if it does
// not end, the run fails and names a store.
// https://github.com/pingcap/tidb-operator/issues/5436
// Catalogue: A7.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	t.Run("is outlived", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		restarted := make(chan error, 1)
		p.watchOnce(t, "tikv.*.PrepareSnapshotBackup.WaitApply.Region", func() {
			go func() {
				for _, pod := range p.c.Pods() {
					if err := p.RestartStore(within(t, 30*time.Second), prod, pod); err != nil {
						restarted <- err
						return
					}
				}
				restarted <- nil
			}()
		})
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Delay: lease})
		e := p.backup(t, attempts(8)...)
		require.NoError(t, <-restarted)
		p.sealed(t, e, 6)
		require.Greater(t, e.doc.Report.Hold.Attempts, 1, e.String())
	})
	t.Run("does not end", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		store := p.c.Stores()[0]
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Times: -1, Position: fault.Slow, Do: store.DropLease})
		e := p.backup(t, attempts(2)...)
		require.Equal(t, exitConflict, e.code, e.String())
		require.Contains(t, e.stderr, store.Addr())
		require.Equal(t, 2, e.doc.Report.Hold.Attempts)
		p.leftNothing(t)
	})
}

// await waits until a condition holds.
func await(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx := within(t, limit)
	for !ok() {
		if wait.For(ctx, 10*time.Millisecond) != nil {
			require.Fail(t, "never happened: "+what)
		}
	}
}
