package hold_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// firstCut is the number of the first CreateSnapshots call that is not preflight's probe.
const firstCut = 2

// GC and schedulers are held for the CreateSnapshots calls, not while AWS copies blocks.
// https://github.com/pingcap/tidb-operator/issues/5256
// Catalogue: A1.
func TestSnapshotsPendingForMinutes_HoldIsOverBeforeTheFirstPoll(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3, func(c *testbed.Config) { c.Rules.SnapshotBase = scale * 5 * time.Second })
	var mu sync.Mutex
	var polls int
	var held []string
	p.watch(t, "ec2.DescribeSnapshots", func() {
		mu.Lock()
		defer mu.Unlock()
		if len(p.EC2.Cuts()) < 3 {
			return // preflight counts the pending ones
		}
		polls++
		held = append(held, p.c.Held()...)
	})
	e := p.backup(t)
	p.sealed(t, e, 6)
	require.Greater(t, polls, 1, "the snapshots were waited for")
	require.Empty(t, held, "held while EBS copied")
	require.Positive(t, e.doc.Report.Hold.Seconds, "the report shows how long the cluster was held")
}

// A failed CreateSnapshots must not leave the pauser alive.
// https://github.com/pingcap/tidb-operator/issues/5488
// Catalogue: A2.
func TestCreateSnapshotsRefusedForOneStore_ReleasesAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 5)
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Code: "UnauthorizedOperation"})
	e := p.backup(t)
	p.reached(t)
	require.Equal(t, exitDenied, e.code, e.String())
	require.Contains(t, e.stderr, "CreateSnapshots")
	p.leftNothing(t)
}

// How a run ends is read from its own journal: what the hold was is no failure once the release is recorded, and
// is one before.
// https://github.com/pingcap/tidb-operator/issues/5331
// Catalogue: A3.
func TestHoldersEnd_IsAFailureOnlyBeforeTheRelease(t *testing.T) {
	t.Parallel()
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3, func(c *testbed.Config) { c.Rules.SnapshotBase = scale * 2 * time.Second })
		var once sync.Once
		p.watch(t, "ec2.DescribeSnapshots", func() {
			if len(p.EC2.Cuts()) == 3 {
				once.Do(func() { p.c.Stores()[0].Kill() })
			}
		})
		e := p.backup(t)
		p.sealed(t, e, 6)
		require.Equal(t, phase.RecordDone, outcome(p.journal(t, e.doc.Run), "release"))
	})
	t.Run("before it", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		store := p.c.Stores()[0]
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: store.Kill})
		// With a lease that a busy machine keeps: the store's end has to be what breaks the hold.
		e := p.backup(t, append(attempts(1), "--lease", "20s")...)
		p.reached(t)
		require.NotZero(t, e.code, e.String())
		require.Contains(t, e.stderr, store.Addr())
		require.NotEqual(t, phase.RecordDone, outcome(p.journal(t, e.doc.Run), "release"))
		p.leftNothing(t)
	})
}

// Nothing resumes before the last member's snapshots were accepted, even if that takes longer than a lease.
// https://github.com/pingcap/tidb-operator/issues/5478
// Catalogue: A4.
func TestOneMemberIsSlow_NothingResumesBeforeAllAreCut(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Delay: lease + time.Second})
	var mu sync.Mutex
	early := map[string]int{}
	for _, point := range []string{"pd.ResumeScheduler", "pd.DropTTLConfig", "tikv.*.PrepareSnapshotBackup.Finish"} {
		p.watch(t, point, func() {
			mu.Lock()
			defer mu.Unlock()
			early[point] += 2 - len(p.EC2.Cuts())
		})
	}
	e := p.backup(t)
	p.reached(t)
	require.Equal(t, map[string]int{"pd.ResumeScheduler": 0, "pd.DropTTLConfig": 0, "tikv.*.PrepareSnapshotBackup.Finish": 0}, early)
	p.sealed(t, e, 4)
	require.Greater(t, e.doc.Report.Hold.Seconds, lease.Seconds())
}

// A suspension that is forgotten in the window makes the set worthless: the keeper's next renewal or the store's
// last word shows it, and the set is deleted.
// https://github.com/pingcap/tidb/issues/49153
// Catalogue: A8.
func TestStoreForgetsItsLeaseInTheWindow_SetIsThrownAway(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"a renewal sees it": lease, "only the store's last word shows it": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3)
			store := p.c.Stores()[1]
			p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Delay: delay, Do: store.DropLease})
			e := p.backup(t, attempts(1)...)
			p.reached(t)
			require.Equal(t, exitConflict, e.code, e.String())
			require.Contains(t, e.stderr, store.Addr(), "the store that broke it is named")
			p.leftNothing(t)
		})
	}
}

// While the hold lasts no raft admin command runs; a region whose wait aborts is asked again, alone, and not for ever.
// https://github.com/tikv/tikv/issues/15739
// Catalogue: A11.
func TestRaftAdminCommandsInTheWindow(t *testing.T) {
	t.Parallel()
	const regions = 6
	newRegions := func(t *testing.T) *place {
		t.Helper()
		p := newPlace(t, 3)
		require.NoError(t, p.c.SplitAt(within(t, 30*time.Second), []byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e")))
		return p
	}
	t.Run("splits are refused", func(t *testing.T) {
		t.Parallel()
		p := newRegions(t)
		split := make(chan error, 1)
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: func() {
			split <- tikvtest.SplitAt(within(t, 300*time.Millisecond), p.c.Stores(), []byte("f"))
		}})
		p.sealed(t, p.backup(t), 6)
		require.Error(t, <-split, "a region was split under the hold")
		require.NoError(t, p.c.SplitAt(within(t, 10*time.Second), []byte("f")), "and may be after it")
	})
	t.Run("aborted regions are asked again, alone", func(t *testing.T) {
		t.Parallel()
		p := newRegions(t)
		p.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Code: "epoch_not_match", Times: 3})
		e := p.backup(t)
		p.reached(t)
		p.sealed(t, e, 6)
		asked := 0
		for _, s := range p.c.Stores() {
			asked += p.faults.Calls("tikv." + id(s) + ".PrepareSnapshotBackup.WaitApply.Region")
		}
		require.Equal(t, regions+3, asked)
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		p := newRegions(t)
		p.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Code: "epoch_not_match", Times: -1})
		e := p.backup(t, "--max-hold", "5s")
		require.Equal(t, exitLimited, e.code, e.String())
		p.reached(t)
		require.Contains(t, e.stderr, "--max-hold 5s")
		p.leftNothing(t)
	})
}

// The snapshots of all stores start as close together as EC2 answers, and the report shows how far apart they are.
// https://github.com/tikv/tikv/issues/16518
// Catalogue: B12.
func TestStoresAreCutApart_SkewIsReported(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 5, func(c *testbed.Config) {
		c.Rules.Latency = spread("CreateSnapshots", 0, time.Minute)
		c.Seed = 7
	})
	e := p.backup(t)
	p.sealed(t, e, 10)
	first, last := p.EC2.Cuts()[0].At, p.EC2.Cuts()[0].At
	for _, c := range p.EC2.Cuts() {
		if c.At.Before(first) {
			first = c.At
		}
		if c.At.After(last) {
			last = c.At
		}
	}
	// EC2 reports a snapshot's start in milliseconds, of real time.
	require.InDelta(t, last.Sub(first).Seconds()/scale, e.doc.Report.Hold.SkewSeconds, 0.01)
	require.Positive(t, e.doc.Report.Hold.SkewSeconds)
	stored := p.run(within(t, time.Minute), "describe", string(e.doc.Backup), "-o", "json")
	require.Zero(t, stored.code, stored.String())
	require.Contains(t, strings.ReplaceAll(stored.stdout, " ", ""), `"skewSeconds":`)
}
