package br_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// The names are those of tests/failures/README.md.

func storeID(s *tikvtest.Store) string { return strconv.FormatUint(s.ID(), 10) }

// requireRefused waits for the end of a run that must not have been ready, and must report why.
func (j *job) requireRefused(t *testing.T, why string) {
	t.Helper()
	require.Equal(t, brcompat.ExitFailed, j.ends(t), j.out())
	require.NotContains(t, j.out(), "All ready")
	require.NotContains(t, j.out(), "GC is paused")
	require.NotContains(t, j.out(), "EBS backup success")
	require.Contains(t, j.out(), "[ERROR]", "the Operator puts these lines into the CR")
	require.Contains(t, j.condition(), why)
}

// https://github.com/pingcap/tidb-operator/issues/5455
// Catalogue: A5.
func TestHoldNeverReady_EndsByADeadlineAndReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.fault(t, fault.Rule{Point: "tikv." + storeID(p.c.Stores()[1]) + ".CheckPendingAdminOp", Nth: 2, Position: fault.Stall, Times: -1})
	pause := p.pause(t, "--ttl=10s")
	pause.requireRefused(t, p.c.Stores()[1].Addr())
	require.Empty(t, p.faults.Unreached())
	require.Empty(t, p.c.Held())
}

// https://github.com/pingcap/tidb-operator/issues/5583
// Catalogue: A6.
func TestStreamLostInWaitApply_PauseEndsAndReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply", Code: "Unavailable"})
	p.pause(t).requireRefused(t, "wait apply")
	require.Empty(t, p.faults.Unreached())
	require.Empty(t, p.c.Held(), "the others are released")
}

// Whatever the Operator does, or where its backup is stuck: after its limit a pause is over. The backup that works under it is
// no success, and nothing of it stays.
// Catalogue: A6.
func TestPauseOverItsLimit_EndsAndReleases(t *testing.T) {
	t.Parallel()
	for limit := 30 * time.Second; !pauseEndsOverItsBackup(t, limit); limit *= 2 {
		require.Less(t, limit, patience, "the backup does not get to its cut")
	}
}

// pauseEndsOverItsBackup is false if the pause was over before the backup came to its cut, as this machine does much else.
func pauseEndsOverItsBackup(t *testing.T, limit time.Duration) bool {
	t.Helper()
	p := newPlace(t)
	p.maxPause = limit
	pause := p.pause(t, "--ttl=30s")
	pause.awaitLine(t, "All ready")
	stuck := make(chan struct{})
	let := sync.OnceFunc(func() { close(stuck) })
	defer let()
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: func() { <-stuck }})
	backup := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitFailed, pause.ends(t), "nothing ended it: %s", pause.out())
	require.Contains(t, pause.condition(), "it took longer than a pause's limit of "+limit.String())
	if len(p.faults.Unreached()) > 0 {
		backup.stop()
		require.Equal(t, brcompat.ExitFailed, backup.ends(t), backup.out())
		return false
	}
	require.Empty(t, p.c.Held(), "the backup is still stuck")
	let()
	backup.requireRefused(t, "is gone")
	require.Empty(t, p.c.Held())
	p.requireNothingLeft(t)
	return true
}

// The limit is what the Operator gives its own job: 10 minutes, whatever the lease is.
// Catalogue: A6.
func TestLimitOfAPause_IsTenMinutes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t, "--ttl=30m")
	pause.awaitLine(t, "All ready")
	require.Contains(t, pause.out(), "[at-most=10m0s]")
	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out())
}

// A store that restarts under the hold ends it: the job reports it at once by its exit code, and releases the rest.
// Catalogue: A6.
func TestStoreRestartsUnderTheHold_PauseEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t, "--ttl", "10s")
	pause.awaitLine(t, "All ready")
	p.c.Stores()[0].DropLease()
	require.Equal(t, brcompat.ExitFailed, pause.ends(t), pause.out())
	require.Contains(t, pause.condition(), p.c.Stores()[0].Addr())
	require.Empty(t, p.c.Held())
}

// https://github.com/pingcap/tidb/issues/44182
// Catalogue: A19.
func TestSchedulerPausedByAnotherTool_IsLeftAsItWas(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	theirs := p.c.PD.Schedulers()[0].Name
	require.NoError(t, p.c.PD.PauseByOther(theirs, 10*time.Minute))
	before := p.c.Held()
	p.pause(t).requireRefused(t, theirs)
	require.Equal(t, before, p.c.Held())
	backup := p.backup(t)
	backup.requireRefused(t, theirs)
	require.Equal(t, before, p.c.Held())
	p.requireNothingLeft(t)
}

// Upstream's own: PD refuses to pause the schedulers, and br ends with 0 and no backup.
func TestPDRefusesToPauseSchedulers_IsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, p *place) *job{
		"backup": func(t *testing.T, p *place) *job { t.Helper(); return p.backup(t) },
		"pause":  func(t *testing.T, p *place) *job { t.Helper(); return p.pause(t, "--ttl=10s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.fault(t, fault.Rule{Point: "pd.PauseScheduler*", Code: "403", Times: -1})
			start(t, p).requireRefused(t, "scheduler")
			require.Empty(t, p.faults.Unreached())
			require.Empty(t, p.c.Held())
			p.requireNothingLeft(t)
		})
	}
}

// https://github.com/pingcap/tidb-operator/issues/5500: the next backup does not begin while one is under way.
// Catalogue: C14.
func TestSecondHold_IsRefusedAndTheFirstOneStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.pause(t)
	first.awaitLine(t, "All ready")
	p.pause(t).requireRefused(t, "another tool holds the cluster")
	p.backup(t).requireRefused(t, "another tool holds the cluster")
	p.requireNothingLeft(t)
	backup := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), "the first hold is unbroken: %s", backup.out())
	first.stop()
	require.Equal(t, brcompat.ExitDone, first.ends(t), first.out())
	require.Empty(t, p.c.Held())
}

// SIGTERM while PD has no leader: the release is retried, and one that fails has an exit code of its own.
func TestPause_PDAwayAtTheEnd_ReportsTheHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t, "--ttl=10s")
	pause.awaitLine(t, "All ready")
	p.fault(t, fault.Rule{Point: "pd.ResumeScheduler*", Code: "503", Times: -1})
	pause.stop()
	require.Equal(t, brcompat.ExitHeld, pause.ends(t), pause.out())
	require.Contains(t, pause.condition(), "tisnap release")
	require.Contains(t, pause.condition(), "expire on their own")
}

func TestPause_SafePoint_IsHeldWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client, err := pd.Open(within(t, 10*time.Second), pd.Config{Addresses: p.c.PD.URLs()})
	require.NoError(t, err)
	defer client.Close()
	now, err := client.Now(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	pause := p.start(t, "operator", "prepare-for-snapshot-backup", "-u", p.pd(), "-i=10s", "-t", now.String())
	pause.awaitLine(t, "All ready")
	for service, point := range p.c.PD.ServiceSafePoints() {
		if strings.HasPrefix(service, "tisnap-") {
			require.Equal(t, uint64(now), point.TS)
		}
	}
	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out())
}
