package ebs_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// EC2 takes no second snapshot of a volume within 15 s: a run right after one that failed has to wait that out.
// https://github.com/pingcap/tidb/issues/41999
// Catalogue: B2.
func TestSecondRunWithin15Seconds_WaitsAndSeals(t *testing.T) {
	t.Parallel()
	const scale = 10
	l := newLive(t, 3, scale)
	l.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Code: "UnauthorizedOperation"})
	first := l.options()
	_, err := l.backup(t, first)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	l.leftNothing(t, first)
	cuts := l.EC2.Cuts()
	require.Len(t, cuts, 2, "two stores were cut already")

	second := l.options()
	result, err := l.backup(t, second)
	l.sealed(t, second, result, err)
	again := l.EC2.Cuts()[len(cuts):]
	require.Len(t, again, 3)
	for _, cut := range again {
		for _, before := range cuts {
			if cut.Instance == before.Instance {
				require.GreaterOrEqual(t, cut.At.Sub(before.At), 15*time.Second)
			}
		}
	}
}

// The account's limit of 100 pending snapshots is known before the cluster is paused.
// https://github.com/pingcap/tidb/issues/44325
// Catalogue: B3.
func TestPendingByOthers_RefusedInPreflight(t *testing.T) {
	t.Parallel()
	l := newLive(t, 10, 10)
	l.EC2.AddForeignSnapshots(90, time.Hour)
	before := len(l.MutatingCalls())
	o := l.options()
	_, err := l.backup(t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "90 are pending")
	require.ErrorContains(t, err, "20 more")
	require.Empty(t, l.EC2.Cuts())
	for _, call := range l.MutatingCalls()[before:] {
		require.NotContains(t, call, "pd ", "nothing was paused")
	}
	l.leftNothing(t, o)
}

// What others start after preflight is met by a wait that the hold's budget bounds.
// Catalogue: B3.
func TestQuotaReachedDuringTheCut_BoundedRetryThenCleanAbort(t *testing.T) {
	t.Parallel()
	l := newLive(t, 10, 10, func(c *testbed.Config) { c.Rules.SnapshotBase = time.Hour })
	l.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow,
		Do: func() { l.EC2.AddForeignSnapshots(90, time.Hour) },
	})
	o := l.options()
	o.MaxHold, o.Lease = 8*time.Second, 3*time.Second
	begin := time.Now()
	_, err := l.backup(t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PendingSnapshotLimitExceeded")
	require.NotEmpty(t, l.EC2.Cuts(), "some stores were cut")
	l.leftNothing(t, o)
	require.Greater(t, time.Since(begin), 4*time.Second, "it was tried again")
}

// The bucket of 100 calls and 5 a second is shared with all others of the account.
// https://github.com/pingcap/tidb/issues/55672
// Catalogue: B4.
func TestNoisyNeighbourInTheBucket_150StoresWithinTheHoldsBudget(t *testing.T) {
	const scale, stores = 3, 150
	l := newLive(t, stores, scale, func(c *testbed.Config) {
		c.Rules.Neighbours = map[string]float64{"CreateSnapshots": 4}
		c.Rules.PendingInAccount = 1000
	})
	o := l.options()
	o.PendingQuota = 1000
	o.MaxHold = l.real(2 * time.Minute)
	result, err := l.backup(t, o)
	l.sealed(t, o, result, err)
	require.Len(t, l.EC2.Cuts(), stores)
	virtual := time.Duration(float64(result.Hold.Cut) * scale)
	t.Logf("%d calls, 100 at once and 1 a second left by the neighbour: floor 50 s, cut %s, hold %s of 2m0s",
		stores, virtual.Round(time.Second), time.Duration(float64(result.Hold.Length)*scale).Round(time.Second))
	require.Greater(t, virtual, 40*time.Second, "the neighbour was felt")
}

// EC2 fails all snapshots of a CreateSnapshots call with one of them.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-create-snapshots.html
// Catalogue: B6.
func TestOneSnapshotFailsAfterAMinute_WholeBackupIsThrownAway(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2, 60, func(c *testbed.Config) { c.Rules.SnapshotBase = time.Hour })
	var once sync.Once
	begin := time.Now()
	l.calls.describe = func() {
		if time.Since(begin) > l.real(time.Minute) {
			once.Do(func() {
				all := l.EC2.Snapshots()
				if len(all) != 4 || l.EC2.FailSnapshot(all[0].ID) != nil {
					t.Errorf("no snapshot to fail among %d", len(all))
				}
			})
		}
	}
	o := l.options()
	_, err := l.backup(t, o)
	require.ErrorContains(t, err, "it failed: its state is")
	l.leftNothing(t, o)
}

// A new id is hidden from Describe and CreateTags for up to 20 s: tags have to be in the call that makes it.
// https://github.com/cmachler/aws-lambda-ebs-backups/issues/13
// Catalogue: B9.
func TestNewIDsHiddenFor20Seconds_AllTaggedAndSealed(t *testing.T) {
	t.Parallel()
	hidden := ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
	l := newLive(t, 3, 10, func(c *testbed.Config) { c.Rules.Invisible = hidden })
	o := l.options()
	result, err := l.backup(t, o)
	l.sealed(t, o, result, err)
	for _, p := range l.snapshotsOf(o) {
		require.Equal(t, string(o.Backup), p.Tags[ebs.TagBackup])
		require.NotEmpty(t, p.Tags[ebs.TagStore])
	}
	for _, call := range l.EC2.MutatingCalls() {
		require.NotContains(t, call, "CreateTags")
	}
}

// And a run that fails while they are hidden deletes them all the same.
// Catalogue: B9.
func TestFailsWhileIDsAreHidden_DeletesAll(t *testing.T) {
	t.Parallel()
	hidden := ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
	l := newLive(t, 3, 10, func(c *testbed.Config) { c.Rules.Invisible = hidden })
	l.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Code: "UnauthorizedOperation"})
	o := l.options()
	_, err := l.backup(t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Len(t, l.EC2.Cuts(), 2)
	l.leftNothing(t, o)
}

// CreateSnapshots has no idempotency token: what came of a lost answer is looked up by tag, never asked again.
// https://github.com/kubernetes-csi/external-snapshotter/issues/134
// Catalogue: B10.
func TestAnswersLost_NoSetTwiceAndNoneLeaked(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		l := newLive(t, 3, 10)
		l.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.After})
		o := l.options()
		result, err := l.backup(t, o)
		l.sealed(t, o, result, err)
		require.Len(t, l.EC2.Cuts(), 3)
	})
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		l := newLive(t, 3, 10)
		l.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Times: -1, Position: fault.After})
		o := l.options()
		result, err := l.backup(t, o)
		l.sealed(t, o, result, err)
		require.Len(t, l.EC2.Cuts(), 3, "found by their tags, and never asked for twice")
	})
	t.Run("always, and hidden for longer than is looked for", func(t *testing.T) {
		t.Parallel()
		hidden := ebstest.Span{Least: 40 * time.Second, Most: 40 * time.Second}
		l := newLive(t, 3, 10, func(c *testbed.Config) { c.Rules.Invisible = hidden })
		l.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Times: -1, Position: fault.After})
		o := l.options()
		o.Visibility = 2 * time.Second // 20 s of EC2's
		_, err := l.backup(t, o)
		require.Error(t, err)
		require.Len(t, l.EC2.Cuts(), 3)
		require.Empty(t, l.c.Held())
		require.Len(t, l.snapshotsOf(o), 6)
		require.Contains(t, l.warned.String(), ebs.TagRun+"="+string(o.Run), "what may have stayed is reported")
		l.collected(t)
	})
}
