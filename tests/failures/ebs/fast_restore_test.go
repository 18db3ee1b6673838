package ebs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// killed runs the program and kills it, as the kernel does, in the call at which the rule strikes.
func (w *whole) killed(t *testing.T, r fault.Rule, args ...string) {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append(args, "--storage", wholeStorage)...)
	cmd.Env = append(os.Environ(), w.Env()...)
	cmd.Stdout, cmd.Stderr = &out, &out
	started := make(chan *os.Process, 1)
	r.Do = func() {
		process := <-started
		started <- process
		_ = process.Signal(syscall.SIGKILL) // it may have ended at this moment
	}
	w.fault(t, r)
	require.NoError(t, cmd.Start())
	started <- cmd.Process
	err = cmd.Wait()
	require.ErrorContains(t, err, "killed", "%s", out.String())
	w.faults.Clear()
}

// A restore that is killed among its volumes leaves what gc removes, once its lock has expired: not before.
// https://github.com/pingcap/tidb-operator/issues/5638
// Catalogue: E2.
func TestKilledInTheMiddleOfItsVolumes_GCLeavesNone(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3)
	w.killed(t, fault.Rule{Point: "ec2.CreateVolume", Nth: 5, Position: fault.After}, restoreInto()...)
	require.NotEmpty(t, w.restored())
	w.visible(t, 3*time.Second)
	alive := w.ok(t, "gc", "--yes", "--older-than", "0s", "-o", "json").report(t)
	require.Zero(t, alive.Count(gc.ActionDeleted), "the lock of the run is alive")
	w.expire(t, wholeTarget)
	young := w.ok(t, "gc", "--yes", "-o", "json").report(t)
	require.Zero(t, young.Count(gc.ActionDeleted), "the run is younger than an hour")
	w.ok(t, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
	require.Eventually(t, func() bool { return len(w.restored()) == 0 }, time.Minute, 20*time.Millisecond)
	w.balanced(t)
}

// A user who knows that a restore died need not wait for gc's minimum age.
// Catalogue: E2.
func TestKilledInTheMiddleOfItsVolumes_AbortLeavesNone(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3)
	w.killed(t, fault.Rule{Point: "ec2.CreateVolume", Nth: 5, Position: fault.After}, restoreInto("--run-id", "dead")...)
	require.NotEmpty(t, w.restored())
	w.visible(t, 3*time.Second)
	w.expire(t, wholeTarget)
	w.ok(t, "restore", "abort", "dead", "--yes", "--delete-rate", "100")
	require.Eventually(t, func() bool { return len(w.restored()) == 0 }, time.Minute, 20*time.Millisecond)
	w.balanced(t)
}

// direct runs a restore on the stand-in's clock: credits and hours pass with it.
func (w *whole) direct(t *testing.T, clock timescale.Clock, change func(*restore.Options)) (*restore.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	k, err := kube.Open(kube.Config{Kubeconfig: w.Kubeconfig()})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	e, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: w.AWS(), Clock: clock})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	kv := tikv.Open(tikv.Config{})
	t.Cleanup(kv.Close)
	deps := restore.Deps{
		Kube: k, EBS: e, TiKV: kv, Store: w.store(t),
		OpenPD: func(ctx context.Context, addresses []string) (restore.PD, error) {
			p, err := pd.Open(ctx, pd.Config{Addresses: addresses})
			if err == nil {
				t.Cleanup(p.Close)
			}
			return p, err
		},
	}
	opts := restore.Options{
		Backup: "b", Target: wholeTarget, Run: "direct", Owner: runlock.Owner{Run: "direct"}, Kubernetes: k.Server(),
		Timeout: 90 * time.Second, Visibility: 2 * time.Second, Now: clock.Now,
	}
	change(&opts)
	return restore.Run(ctx, deps, opts)
}

// enabled counts the pairs of fast snapshot restore that are on.
func (w *whole) enabled() int {
	n := 0
	for _, f := range w.EC2.FastRestores() {
		if f.State != ebs.FastRestoreDisabled && f.State != ebs.FastRestoreDisabling {
			n++
		}
	}
	return n
}

// Fast snapshot restore is enabled in calls of ten, waited for until it is enabled and has a whole credit, used
// by every volume, and disabled.
// https://github.com/pingcap/tidb/issues/48505 https://github.com/pingcap/tidb/issues/48629
// Catalogue: E11.
func TestFastRestore_CreditsAreWaitedForAndItEndsAfterwards(t *testing.T) {
	t.Parallel()
	const scale = 300
	clock := timescale.New(scale)
	w := newWhole(t, 6, func(c *testbed.Config) { c.Scale, c.Rules.FastRestore.Snapshots = scale, 20 })
	w.scale = scale
	w.backup(t, "b")
	w.destroy(t)
	enabled, credit := 0, 100.0
	w.fault(t, fault.Rule{Point: "ec2.CreateVolume", Position: fault.Slow, Nth: 2, Do: func() {
		enabled = w.enabled()
		for _, f := range w.EC2.FastRestores() {
			credit = min(credit, w.EC2.FastRestoreCredits(f.Snapshot, f.Zone))
		}
	}})
	r, err := w.direct(t, clock, func(o *restore.Options) { o.FastRestore = true })
	require.NoError(t, err)
	require.Empty(t, r.Left)
	require.Equal(t, 12, enabled, "all were enabled when the first volume was made")
	require.GreaterOrEqual(t, credit, 1.0)
	require.Eventually(t, func() bool { return w.enabled() == 0 }, time.Minute, 20*time.Millisecond)
	w.balanced(t)
}

// What a killed restore left enabled is billed by the hour: gc ends it.
// https://github.com/pingcap/tidb/issues/49398
// Catalogue: E11.
func TestKilledWhileFastRestoreIsEnabled_GCDisablesIt(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, noData, func(c *testbed.Config) { c.Rules.FastRestore.Snapshots = 20 })
	w.backup(t, "b")
	w.destroy(t)
	w.killed(t, fault.Rule{Point: "ec2.DescribeFastSnapshotRestores", Nth: 3, Position: fault.After}, restoreInto("--fsr")...)
	require.Equal(t, 6, w.enabled())
	w.ok(t, "gc", "--yes", "--older-than", "0s")
	require.Equal(t, 6, w.enabled(), "the lock of the run is alive")
	w.expire(t, wholeTarget)
	report := w.ok(t, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100", "-o", "json").report(t)
	require.Equal(t, 6, report.Count(gc.ActionDeleted))
	require.Zero(t, w.enabled())
	w.balanced(t)
}

// A restore that fails disables it, too.
// Catalogue: E11.
func TestRestoreFails_FastRestoreIsDisabled(t *testing.T) {
	t.Parallel()
	const scale = 300
	clock := timescale.New(scale)
	w := newWhole(t, 3, noData, func(c *testbed.Config) { c.Scale, c.Rules.FastRestore.Snapshots = scale, 20 })
	w.backup(t, "b")
	w.destroy(t)
	w.fault(t, fault.Rule{Point: "ec2.CreateVolume", Code: "UnauthorizedOperation", Nth: 3, Times: -1})
	_, err := w.direct(t, clock, func(o *restore.Options) { o.FastRestore = true })
	require.Error(t, err)
	w.faults.Clear()
	require.Zero(t, w.enabled())
	w.nothingLeft(t)
}

// The rate of initialization is shared by all volumes of a region: 40 volumes at 300 MiB/s go at 125, all at
// once, and what EC2 has no room for is made without.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2691
// Catalogue: E12.
func TestInitializationRate_StaysBelowTheRegionsSum(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 20, noData, func(c *testbed.Config) { c.Rules.ByteScale = 1e6 })
	w.backup(t, "b")
	w.destroy(t)
	plan := w.refused(t, 0, restoreInto("--initialization-rate", "300", "--dry-run", "-o", "json")...)
	require.Contains(t, plan.stdout, `"initializationMiB": 125`)
	require.Contains(t, plan.stdout, `"waves": 1`)
	// Static stores cannot be resolved: the restore is ended when its volumes are bound.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var made atomic.Int64
	w.fault(t, fault.Rule{Point: "kube.create.persistentvolumes", Position: fault.Slow, Times: -1, Do: func() {
		if n := len(w.restored()); n > 0 { // before, they were created by a dry run
			made.Store(int64(n))
			cancel()
		}
	}})
	e := w.runIn(ctx, t, restoreInto("--initialization-rate", "300")...)
	require.NotZero(t, e.code)
	require.EqualValues(t, 40, made.Load())
	require.NotContains(t, e.stderr, "no room")
	w.faults.Clear()
	w.nothingLeft(t)
}

// Where others of the account take the sum, the volumes are made without a rate, and nothing is made twice.
// Catalogue: E12.
func TestNoRoomForTheRate_VolumesAreMadeWithout(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3, func(c *testbed.Config) { c.Rules.Initialization.SumMiB, c.Rules.ByteScale = 600, 1e6 })
	e := w.ok(t, restoreInto("--initialization-rate", "300", "--timeout", "20s")...)
	require.Contains(t, e.stderr, "no room")
	require.Len(t, w.restored(), 6)
	w.balanced(t)
}
