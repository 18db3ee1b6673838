package resolve_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// It has slow stores: a person sees how much is done and how long it will take (tikv/tikv#15276).
// Catalogue: G4.
func TestSlowStores_ProgressAndTimeLeftAreShown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	p.fault(t, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Position: fault.Slow, Delay: 300 * time.Millisecond, Times: 1})
	p.fault(t, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Position: fault.Slow, Delay: 5 * time.Second, Nth: 2, Times: -1})
	lines := p.progress(t, "restore", "round-1", "--to", name.String(), "--timeout", "1m")
	p.reached(t)
	shown := false
	for _, l := range lines {
		shown = shown || (l.Step == "flashback" && l.Total > 0 && l.Done > 0 && l.Done < l.Total && l.Unit == "regions" && l.ETASeconds != nil)
	}
	require.True(t, shown, "no line about the flashback shows the time left: %+v", lines)
	p.verify(t, name)
}

// It moves the GC safe point beyond the backup ts before and while keys are flashed back: versions of the
// backup ts may be gone (pingcap/tidb#36215).
// Catalogue: G9.
func TestGCPassesTheBackupTS_EndsTheRun(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	for _, point := range []string{"pd.RaiseAllocID", "tikv.*.KvPrepareFlashbackToVersion", "tikv.*.KvFlashbackToVersion"} {
		t.Run(point, func(t *testing.T) {
			name := p.next()
			p.fault(t, fault.Rule{Point: point, Position: fault.Slow, Do: func() {
				p.cluster(name).PD.SetGCSafePoint(uint64(p.BackupTS()) + 1)
			}})
			e := p.restore(t, name)
			require.Equal(t, exitCorrupt, e.code, "%s: %s", point, e)
			p.reached(t)
			require.Contains(t, e.doc.Report.Error, "GC safe point")
			require.Contains(t, e.stderr, `"hint":"`)
			require.Nil(t, p.cluster(name), "it does not count as restored")
		})
	}
}

// It has a PD that has lost a region: the restore does not end well before PD knows all
// (tidb-operator#5090).
// Catalogue: G11.
func TestPDLacksARegion_IsNoEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	lose := func() { p.cluster(name).PD.HideRegion([]byte("t")) }
	p.fault(t, fault.Rule{Point: "pd.UnmarkRecovering", Position: fault.Slow, Do: lose})
	e := p.restore(t, name, "--timeout", "10s", "--keep-on-failure")
	require.Equal(t, exitLimited, e.code, e.String())
	p.reached(t)
	require.Regexp(t, "wait for leaders|check regions in PD", e.doc.Report.Error)
	require.False(t, e.doc.Restored)

	p.cluster(name).PD.HideRegion(nil)
	e = p.resolve(t, name)
	require.Zero(t, e.code, e.String())
	require.True(t, e.doc.Resolved)
	require.Zero(t, e.doc.Resolve.Regions, "the data were resolved already: only the end was missing")
	p.verify(t, name)
}

// order notes calls as they come.
type order struct {
	mu    sync.Mutex
	calls []string
}

func (o *order) note(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// It looks at the order of the steps that must not be turned round (tidb-operator#4812).
// Catalogue: G12.
func TestSteps_KeepTheirOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	wanted := []string{
		"pd.MarkRecovering", "pd.ResetTS", "tikv.*.ReadRegionMeta", "pd.RaiseAllocID", "pd.SetTTLConfig", "tikv.*.RecoverRegion",
		"tikv.*.KvPrepareFlashbackToVersion", "tikv.*.KvFlashbackToVersion", "pd.UnmarkRecovering", "pd.DropTTLConfig",
	}
	var seen order
	for _, point := range wanted {
		p.fault(t, fault.Rule{Point: point, Position: fault.Slow, Times: -1, Do: func() {
			seen.note(point)
			if ready := p.Bed().Nodes.TiDBReady(name); ready > 0 && point != "pd.DropTTLConfig" {
				seen.note("TiDB served before " + point)
			}
		}})
	}
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	p.reached(t)
	// The first call of each comes before the first of the next; no flashback is made after the mark is gone, and
	// none before every region is prepared.
	calls := seen.calls
	require.False(t, slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "TiDB") }), "%v", calls)
	firsts := make([]int, len(wanted))
	for i, point := range wanted {
		firsts[i] = slices.Index(calls, point)
	}
	require.IsIncreasing(t, firsts, "%v", calls)
	unmarked := slices.Index(calls, "pd.UnmarkRecovering")
	require.NotContains(t, calls[unmarked:], "tikv.*.KvFlashbackToVersion")
	require.NotContains(t, calls[slices.Index(calls, "tikv.*.KvFlashbackToVersion"):], "tikv.*.KvPrepareFlashbackToVersion")
	p.verify(t, name) // PD's next id is above every id in the data, too
}

// It reads the stores' own list of calls that change something: nothing but the recovery and the flashback
// (pingcap/tidb#47273).
// Catalogue: G13.
func TestNothingIsWrittenButTheFlashback(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	var before []string
	p.fault(t, fault.Rule{Point: "pd.UnmarkRecovering", Position: fault.Slow, Do: func() {
		for _, s := range p.cluster(name).Stores() {
			before = append(before, s.MutatingCalls()...)
		}
	}})
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	p.reached(t)
	slices.Sort(before)
	require.Equal(t, []string{"KvFlashbackToVersion", "KvPrepareFlashbackToVersion", "RecoverRegion"}, slices.Compact(before))
	for _, s := range p.cluster(name).Stores() {
		require.Empty(t, s.MutatingCalls(), "after the restart")
	}
	p.verify(t, name)
}
