package history_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// counted counts the reads of a store.
type counted struct {
	objstore.Store
	gets, lists atomic.Int64
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, key)
}

func (c *counted) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, prefix)
}

func made(op report.Operation, run cluster.RunID, backup cluster.BackupID, started time.Time, outcome phase.Outcome) *report.Report {
	h := report.Header{
		Operation: op, Run: run, Backup: backup, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Outcome: outcome,
		Started: started, Finished: started.Add(time.Minute), TiKVs: 3, Volumes: 3, DataBytes: 1e9,
	}
	if outcome == phase.Failed {
		h.Error, h.ErrorKind = "denied", "denied"
	}
	return report.New(h, phase.Timings{
		{Phase: report.VolumeSnapshots, Start: started, Seconds: 40}, {Phase: "seal", Seconds: 5}, {Phase: report.VolumeSnapshots, Seconds: 10},
	})
}

func encoded(t testing.TB, r *report.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.JSON(&b))
	return b.Bytes()
}

// filled has two sealed backups b0 and b1, a restore of b1, and a failed run of another backup.
func filled(t testing.TB) *counted {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	c := catalog.Catalog{Store: store}
	for i := range 2 {
		id, run := cluster.BackupID(fmt.Sprint("b", i)), cluster.RunID(fmt.Sprint("run-b", i))
		require.NoError(t, c.Claim(t.Context(), catalog.Claim{ID: id, Run: run, ClaimedAt: epoch.Add(time.Duration(i) * time.Hour)}))
		require.NoError(t, c.PutReport(t.Context(), id, run, encoded(t, made(report.Backup, run, id, epoch.Add(time.Duration(i)*time.Hour), phase.Done))))
	}
	require.NoError(t, c.PutReport(t.Context(), "b1", "run-r", encoded(t, made(report.Restore, "run-r", "b1", epoch.Add(3*time.Hour), phase.Done))))
	require.NoError(t, c.PutReport(t.Context(), "b2", "run-f", encoded(t, made(report.Backup, "run-f", "b2", epoch.Add(2*time.Hour), phase.Failed))))
	return &counted{Store: store}
}

func runsOf(s *history.State) (names []cluster.RunID) {
	for _, r := range s.Runs {
		names = append(names, r.Run)
	}
	return names
}

func TestRuns_ReadOnceForEachVersion(t *testing.T) {
	t.Parallel()
	store := filled(t)
	reader := history.Open(store)
	state, err := reader.Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, []cluster.RunID{"run-b0", "run-b1", "run-f", "run-r"}, runsOf(state))
	require.Equal(t, 4, state.Read)
	snapshots, ran := state.Runs[0].PhaseSeconds(report.VolumeSnapshots)
	require.True(t, ran)
	require.InDelta(t, 50, snapshots, 1e-9, "two phases of a name are added up")
	require.Equal(t, "denied", state.Runs[2].ErrorKind)

	again, err := reader.Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, state.Runs, again.Runs)
	require.Equal(t, 0, again.Read)
	require.EqualValues(t, 4, store.gets.Load())

	changed := made(report.Backup, "run-b0", "b0", epoch, phase.Done)
	changed.Warnings = []string{"x"}
	require.NoError(t, catalog.Catalog{Store: store.Store}.PutReport(t.Context(), "b0", "run-b0", encoded(t, changed)))
	require.NoError(t, store.Delete(t.Context(), manifest.ReportKey("b2", "run-f")))
	now, err := reader.Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, []cluster.RunID{"run-b0", "run-b1", "run-r"}, runsOf(now), "what is gone is forgotten")
	require.Equal(t, 1, now.Read)
	require.Equal(t, 1, now.Runs[0].Warnings)
}

func TestRuns_Since_LeavesOutWhatEndedBefore(t *testing.T) {
	t.Parallel()
	state, err := history.Open(filled(t)).Runs(t.Context(), epoch.Add(2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, []cluster.RunID{"run-f", "run-r"}, runsOf(state))
	state, err = history.Open(filled(t)).Runs(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, state.Runs)
	require.Equal(t, 0, state.Read, "objects that were written before need no read")
}

// A process of a run failed, and one that resumed it succeeded: the storage has the run once.
func TestRuns_ReportDoneAfterItsFailure_CountsOnce(t *testing.T) {
	t.Parallel()
	store := filled(t)
	c := catalog.Catalog{Store: store.Store}
	for _, outcome := range []phase.Outcome{phase.Failed, phase.Done} {
		require.NoError(t, c.PutReport(t.Context(), "b1", "run-b1", encoded(t, made(report.Backup, "run-b1", "b1", epoch, outcome))))
	}
	state, err := history.Open(store).Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, []cluster.RunID{"run-b0", "run-b1", "run-f", "run-r"}, runsOf(state))
	require.Equal(t, phase.Done, state.Runs[1].Outcome)
}

// A trend of months needs the reports of backups that were deleted since.
func TestRuns_BackupDeleted_ReportsStay(t *testing.T) {
	t.Parallel()
	store := filled(t)
	objects, err := store.List(t.Context(), manifest.BackupPrefix("b1"))
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, o := range objects {
		require.NoError(t, store.Delete(t.Context(), o.Key))
	}
	state, err := history.Open(store).All(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, state.Backups, 1)
	require.Equal(t, []cluster.RunID{"run-b0", "run-b1", "run-f", "run-r"}, runsOf(state))
	for _, name := range []string{"b1", "run-b1", "run-r"} {
		found, err := history.Open(store).Find(t.Context(), name)
		require.NoError(t, err)
		require.EqualValues(t, "b1", found.Backup)
		require.Len(t, found.Reports, 2)
	}
}

func TestRuns_ReportThatCannotBeRead_IsInTheListWithItsProblem(t *testing.T) {
	t.Parallel()
	store := filled(t)
	_, err := store.Create(t.Context(), manifest.ReportKey("b", "odd"), []byte("\x1b[31m{"))
	require.NoError(t, err)
	state, err := history.Open(store).Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, state.Runs, 5)
	require.Contains(t, state.Runs[0].Problem, "decode report")
}

func TestAll_BackupsAreReadOnce(t *testing.T) {
	t.Parallel()
	store := filled(t)
	reader := history.Open(store)
	state, err := reader.All(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, state.Backups, 2)
	require.Equal(t, catalog.StateUnsealed, state.Backups[0].State)
	require.Equal(t, 6, state.Read)
	before := store.gets.Load()
	state, err = reader.All(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, state.Backups, 2)
	require.Equal(t, before, store.gets.Load())
	require.Equal(t, 6, state.Known)
}

func TestFind_ByBackupOrByRun(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		asked  cluster.RunID
		backup cluster.BackupID
		runs   []cluster.RunID
	}{
		"b1":     {"", "b1", []cluster.RunID{"run-b1", "run-r"}},
		"run-b1": {"run-b1", "b1", []cluster.RunID{"run-b1", "run-r"}},
		"run-r":  {"run-r", "b1", []cluster.RunID{"run-b1", "run-r"}},
		"run-f":  {"run-f", "b2", []cluster.RunID{"run-f"}},
		"b2":     {"", "b2", []cluster.RunID{"run-f"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := history.Open(filled(t)).Find(t.Context(), name)
			require.NoError(t, err)
			var runs []cluster.RunID
			for _, r := range found.Reports {
				runs = append(runs, r.Run)
			}
			require.Equal(t, want.runs, runs)
			require.Equal(t, want.asked, found.Asked)
			require.Equal(t, want.backup, found.Backup)
			require.NotNil(t, found.Report())
		})
	}
}

// Under a name there may be tries that failed, and a backup that was deleted before the name was used again: its report is
// that of the newest that succeeded.
func TestFind_NameUsedAgain_OwnReportIsTheNewestThatSucceeded(t *testing.T) {
	t.Parallel()
	store := filled(t)
	c := catalog.Catalog{Store: store.Store}
	add := func(run cluster.RunID, hours int, outcome phase.Outcome) {
		r := made(report.Backup, run, "b1", epoch.Add(time.Duration(hours)*time.Hour), outcome)
		require.NoError(t, c.PutReport(t.Context(), "b1", run, encoded(t, r)))
	}
	add("failed-before", -1, phase.Failed)
	add("again", 5, phase.Done)
	add("failed-after", 6, phase.Failed)
	found, err := history.Open(store).Find(t.Context(), "b1")
	require.NoError(t, err)
	var names []cluster.RunID
	for _, r := range found.Reports {
		names = append(names, r.Run)
	}
	require.Equal(t, []cluster.RunID{"again", "failed-before", "run-b1", "run-r", "failed-after"}, names)
	require.EqualValues(t, "again", found.Report().Run)
}

func TestFind_Typo_HintNamesTheNearest(t *testing.T) {
	t.Parallel()
	_, err := history.Open(filled(t)).Find(t.Context(), "run-g")
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "run-f")
}
