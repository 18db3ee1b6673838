package backup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestRun_BackupTSBelowAnEarlierBackup_IsRefused(t *testing.T) { //nolint:tparallel // each row is the newest backup of one storage
	t.Parallel()
	r := newRig(t)
	first := r.options()
	sealed, err := r.run(t.Context(), t, first)
	require.NoError(t, err)
	before := len(r.bed.MutatingCalls())
	for name, test := range map[string]struct {
		change func(m *manifest.Manifest)
		ok     bool
	}{
		"of this cluster":      {func(*manifest.Manifest) {}, false},
		"of another PD":        {func(m *manifest.Manifest) { m.Source.ClusterID++ }, true},
		"of another namespace": {func(m *manifest.Manifest) { m.Source.Cluster.Namespace = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := *sealed.Manifest
			m.ID = cluster.BackupID("future-" + name[len(name)-2:])
			m.BackupTS = cluster.MakeTS(time.Now().Add(time.Hour), 0)
			m.MaxTS = m.BackupTS + 1
			test.change(&m)
			c := catalog.Catalog{Store: r.store}
			require.NoError(t, c.PutManifest(t.Context(), &m))
			require.NoError(t, c.Seal(t.Context(), m.ID, time.Now(), 0))
			_, err := backup.Plan(t.Context(), r.deps, r.options())
			require.NoError(t, c.Bury(t.Context(), m.ID, m.Run, "", false))
			require.NoError(t, c.Remove(t.Context(), m.ID, m.Run))
			if test.ok {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Unready, failure.KindOf(err))
			require.ErrorContains(t, err, "below that of the earlier backup "+string(m.ID))
		})
	}
	require.Len(t, r.bed.MutatingCalls(), before)
}

func TestRun_ConsistentNow_HoldsWhatWasCommittedBeforeTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start, err := r.deps.PD.Now(t.Context())
	require.NoError(t, err)
	// The resolved ts does not move for a while.
	r.fault(t, fault.Rule{Point: "tikv.*.ResolvedTS", Times: 12})
	o := r.options()
	o.ConsistentNow = true
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Empty(t, r.faults.Unreached())
	require.Greater(t, result.Manifest.BackupTS, start)
	require.NotZero(t, result.Timings.Seconds("create task"))

	// On one store it never moves: the run names it.
	lagging := r.c.Stores()[slices.IndexFunc(r.c.Stores(), leads)]
	r.fault(t, fault.Rule{Point: fmt.Sprintf("tikv.%d.ResolvedTS", lagging.ID()), Times: -1})
	before := len(r.c.PD.MutatingCalls())
	o = r.options()
	o.ConsistentNow, o.ConsistentTimeout = true, time.Second
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, lagging.Addr())
	require.Len(t, r.c.PD.MutatingCalls(), before)
}

// leads reports whether the store leads a region: others do not count for the resolved ts.
func leads(s *tikvtest.Store) bool {
	return slices.ContainsFunc(s.Peers(), func(p tikvtest.PeerState) bool { return p.Leader })
}

func TestRun_ImportRuns(t *testing.T) {
	t.Parallel()
	const key = "/tidb/brie/import/lightning/orders"
	r := newRig(t)
	r.c.PD.SetEtcd(key, "")
	before := len(r.bed.MutatingCalls())
	_, err := r.run(t.Context(), t, r.options())
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "lightning orders")
	require.Len(t, r.bed.MutatingCalls(), before, "refused before anything was changed")

	o := r.options()
	o.OnImport, o.ImportTimeout = preflight.WaitOnImport, 300*time.Millisecond
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "after 300ms an import still runs: lightning orders")
	require.Len(t, r.bed.MutatingCalls(), before)

	o = r.options()
	o.OnImport = preflight.PauseOnImport
	_, err = r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
}

func TestOptions_Contradictions_AreUsage(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]backup.Options{
		"lease of max-hold":   {Lease: time.Minute, MaxHold: time.Minute},
		"short lease":         {Lease: time.Second},
		"short max-hold":      {MaxHold: 2 * time.Second},
		"no attempts":         {HoldAttempts: -1},
		"steady for too long": {Steady: time.Minute, SteadyTimeout: time.Second},
		"import policy":       {OnImport: "ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, failure.Usage, failure.KindOf(o.Validate()))
			_, err := backup.Run(t.Context(), backup.Deps{}, o)
			require.Equal(t, failure.Usage, failure.KindOf(err))
		})
	}
	o := backup.Options{MaxHold: 8 * time.Second}
	require.NoError(t, o.Validate(), "the default lease gives way")
}
