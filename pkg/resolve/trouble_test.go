package resolve_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// troubles are the cases of TestResolver in which a store or PD does not do what it is asked to.
func troubles() []resolverCase {
	return []resolverCase{
		{"a store loses a recover call in its queues", recoverCallLost},
		{"a store never elects", neverElects},
		{"a call is never answered", callNeverAnswered},
		{"stores are busy again and again", busyStores},
		{"a region is never ready", regionNeverReady},
		{"GC passes while regions are prepared", gcPasses},
		{"GC passes while regions are flashed back", gcPassesLater},
		{"PD takes limits and does not keep them", limitsNotKept},
		{"schedulers are resumed by another tool", schedulersResumed},
		{"everything is waited for", waitedFor},
		{"each sub-phase is counted", countedSubPhases},
	}
}

// recoverCallLost: the first call to each store is open and nothing happens, until the store is asked again.
func recoverCallLost(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Stall, Times: len(l.stores)}))
	cfg := l.config(o, "run")
	cfg.Stall = 3 * time.Second
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	require.Positive(t, r.Stats().Resent)
	l.verify(t, o)
}

func neverElects(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Stall, Times: -1}))
	cfg := l.config(o, "run")
	cfg.Stall = time.Second
	r, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "regions lead and nothing changed for 1s: region ")
	require.ErrorContains(t, err, " on store ")
	require.Positive(t, r.Stats().Resent, "it was retried first")
	require.Zero(t, l.calls("KvPrepareFlashbackToVersion"))
}

// callNeverAnswered: the call is cancelled and sent again long before patience ends.
func callNeverAnswered(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	for _, rpc := range []string{"KvPrepareFlashbackToVersion", "KvFlashbackToVersion"} {
		require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*." + rpc, Position: fault.Stall}))
	}
	cfg := l.config(o, "run")
	cfg.Stall = 3 * time.Second
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Stats().Retries)
	l.verify(t, o)
}

func busyStores(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.KvPrepareFlashbackToVersion", Code: "server_is_busy", Times: 8}))
	r, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	require.EqualValues(t, 8, r.Stats().Retries)
	l.verify(t, o)
}

func regionNeverReady(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Code: "epoch_not_match", Times: -1}))
	cfg := l.config(o, "run")
	cfg.Stall = time.Second
	_, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "0 regions are done and ")
	require.ErrorContains(t, err, "nothing changed for 1s: region ")
	require.ErrorContains(t, err, "injected fault")
}

// gcPasses: versions of the backup ts may be gone from then on, so nothing is flashed back to it.
func gcPasses(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	cfg := l.config(o, "run")
	_, err := l.run(t, cfg, map[string]func(){"flashback": func() { l.pd.SetGCSafePoint(uint64(o.ts) + 1) }})
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "GC safe point")
	require.Zero(t, l.calls("KvFlashbackToVersion"))
}

// gcPassesLater: some regions are done by then, but the run does not report success.
func gcPassesLater(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	pass := func() { l.pd.SetGCSafePoint(uint64(o.ts) + 1) }
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Nth: 3, Position: fault.Slow, Do: pass}))
	_, err := l.run(t, l.config(o, "run"), nil)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "GC safe point")
}

// forgetful is a PD that answers a TTL config with success and does not have it.
type forgetful struct{ *pd.Client }

func (forgetful) SetTTLConfig(context.Context, map[string]any, time.Duration) error { return nil }

func limitsNotKept(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	r := resolve.New(l.client, nil)
	r.Target(l.config(o, "run"), forgetful{l.oracle})
	steps := r.Steps("resolve data", resolve.StepOptions{})
	for i := range steps {
		steps[i].Retry = false // it would be retried for minutes
	}
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/run")
	err := phase.New(phase.Config{Run: "run", Journal: journal}).Run(within(t), steps)
	require.ErrorContains(t, err, "PD took schedule.leader-schedule-limit and has")
	require.Zero(t, l.calls("RecoverRegion"), "no leader is made before PD keeps its hands off")
}

// schedulersResumed: a pause that another tool ends, or a new leader of PD forgets, is made again.
func schedulersResumed(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	paused := func() bool {
		list, err := l.oracle.Schedulers(within(t))
		require.NoError(t, err)
		for _, s := range list {
			if !s.Paused {
				return false
			}
		}
		return len(list) > 0
	}
	_, err := l.run(t, l.config(o, "run"), map[string]func(){"prepare": func() {
		require.Eventually(t, paused, patience, 10*time.Millisecond, "paused as soon as they are there")
		list, err := l.oracle.Schedulers(within(t))
		require.NoError(t, err)
		require.NoError(t, l.oracle.ResumeScheduler(within(t), list[0].Name))
		require.Eventually(t, paused, patience, 50*time.Millisecond, "paused again")
	}})
	require.NoError(t, err)
	l.verify(t, o)
}

// waitedFor: with Config.WaitApply no region is prepared before every RecoverRegion is answered.
func waitedFor(t *testing.T, o *original) {
	l := restoreLab(t, o, 1, quickChecks)
	began := time.Now()
	_, err := l.run(t, l.config(o, "run"), map[string]func(){"prepare": func() {
		require.Greater(t, time.Since(began), l.checkInterval, "RecoverRegion answers at its second check")
	}})
	require.NoError(t, err)
	l.verify(t, o)
}
