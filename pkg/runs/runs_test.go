package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
)

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// began is when the runs of this test began.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// wrote writes the journal of a backup whose process came so far.
func wrote(t *testing.T, store objstore.Store, id cluster.RunID, records ...phase.Record) {
	t.Helper()
	wroteAs(t, store, id, "backup", records...)
}

func wroteAs(t *testing.T, store objstore.Store, id cluster.RunID, operation string, records ...phase.Record) {
	t.Helper()
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(id))
	about := phase.Record{Type: phase.RecordRun, Data: []byte(`{"operation":"` + operation + `","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v"}`)}
	for i, r := range append([]phase.Record{about}, records...) {
		r.Seq, r.Run, r.Time = i+1, id, began.Add(time.Duration(i)*time.Second)
		require.NoError(t, j.Append(t.Context(), r))
	}
}

// hadLock writes the journal of a run that had the cluster's lock, and has released it.
func hadLock(t *testing.T, store objstore.Store, operation string, records ...phase.Record) {
	t.Helper()
	wroteAs(t, store, "r", operation, append([]phase.Record{{Type: phase.RecordDone, Step: "lock"}}, records...)...)
	lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

func TestList_StatesOfRuns(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	begin := phase.Record{Type: phase.RecordBegin, Step: "wait"}
	wrote(t, store, "good", begin, phase.Record{Type: phase.RecordEnd})
	wrote(t, store, "bad", begin, phase.Record{Type: phase.RecordEnd, Error: "no"})
	locked := phase.Record{Type: phase.RecordDone, Step: "lock"}
	wrote(t, store, "dead", locked, begin)
	wrote(t, store, "alive", locked, begin)
	_, err := store.Create(t.Context(), manifest.JournalKey("garbage", 1), []byte("{"))
	require.NoError(t, err)
	_, err = runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "alive", Host: "h", PID: 7, Command: "backup"}, time.Minute)
	require.NoError(t, err)
	got, err := runs.List(t.Context(), store)
	require.NoError(t, err)
	states := map[cluster.RunID]runs.State{}
	for _, r := range got {
		states[r.ID] = r.State
	}
	assert.Equal(t, map[cluster.RunID]runs.State{
		"good": runs.Done, "bad": runs.Failed, "dead": runs.Unfinished, "alive": runs.Running, "garbage": runs.Damaged,
	}, states)
	alive, err := runs.Read(t.Context(), store, "alive")
	require.NoError(t, err)
	assert.Contains(t, alive.Owner, "pid 7 on host h")
	assert.NotNil(t, alive.Until)
	assert.InDelta(t, time.Since(began).Seconds(), alive.Processes[0].Seconds, 60, "the step that runs counts")
	dead, err := runs.Read(t.Context(), store, "dead")
	require.NoError(t, err)
	assert.Zero(t, dead.Processes[0].Seconds)
	_, err = runs.Read(t.Context(), store, "absent")
	assert.Equal(t, failure.NotFound, failure.KindOf(err))
}

func TestLast_IsTheUnfinishedRunThatHadTheLock(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	last, err := runs.Last(t.Context(), store, prod)
	require.NoError(t, err)
	assert.Nil(t, last)
	wrote(t, store, "dead", phase.Record{Type: phase.RecordBegin, Step: "wait"})
	lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "dead"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
	last, err = runs.Last(t.Context(), store, prod)
	require.NoError(t, err)
	require.NotNil(t, last)
	assert.Equal(t, cluster.BackupID("b"), last.Backup)
	assert.Equal(t, "wait", last.Step)
	require.NoError(t, runs.End(t.Context(), store, "dead", "aborted"))
	require.NoError(t, runs.End(t.Context(), store, "dead", "aborted"))
	last, err = runs.Last(t.Context(), store, prod)
	require.NoError(t, err)
	assert.Nil(t, last, "it is over")
}

// Only the run that restored a cluster is named as such: a run that failed did not, and a backup that came later proves nothing.
func TestRestored_IsTheRestoreThatHadTheLockLast(t *testing.T) {
	t.Parallel()
	end := phase.Record{Type: phase.RecordEnd}
	for name, row := range map[string]struct {
		operation string
		last      phase.Record
		want      bool
	}{
		"restored":             {"restore", end, true},
		"resolved":             {"resolve", end, true},
		"failed":               {"restore", phase.Record{Type: phase.RecordEnd, Error: "no"}, false},
		"not over":             {"restore", phase.Record{Type: phase.RecordBegin, Step: "recover"}, false},
		"backed up after it":   {"backup", end, false},
		"nothing had its lock": {"", end, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			if row.operation != "" {
				hadLock(t, store, row.operation, row.last)
			}
			got, err := runs.Restored(t.Context(), store, prod)
			require.NoError(t, err)
			require.Equal(t, row.want, got != nil)
		})
	}
}

// A cluster whose data are resolved is kept, whatever fails after that. A run that began again has resolved nothing since.
func TestResolved_IsTheFailedRestoreWhoseDataAreThere(t *testing.T) {
	t.Parallel()
	left := phase.Record{Type: phase.RecordIntent, Step: "leave-recovery", Name: journal.IntentLeaveRecovery}
	older := phase.Record{Type: phase.RecordResult, Step: "leave-recovery", Name: journal.ResultLeftRecovery}
	again := phase.Record{Type: phase.RecordRetryGroup}
	failed := phase.Record{Type: phase.RecordEnd, Error: "no"}
	for name, row := range map[string]struct {
		operation string
		records   []phase.Record
		want      bool
	}{
		"restore failed after it":   {"restore", []phase.Record{left, failed}, true},
		"resolve failed after it":   {"resolve", []phase.Record{left, failed}, true},
		"one of an older version":   {"restore", []phase.Record{older, failed}, true},
		"failed before it":          {"restore", []phase.Record{failed}, false},
		"began again after it":      {"restore", []phase.Record{left, again, failed}, false},
		"done":                      {"restore", []phase.Record{left, {Type: phase.RecordEnd}}, false},
		"died: it can be continued": {"restore", []phase.Record{left}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			hadLock(t, store, row.operation, row.records...)
			got, err := runs.Resolved(t.Context(), store, prod)
			require.NoError(t, err)
			require.Equal(t, row.want, got != nil)
		})
	}
}

// A run that died before it could change anything need not be continued or aborted; one that has the lock by its object
// may have changed something, although the journal has no record of it.
func TestRead_DiedBeforeItHadTheLock_IsFailed(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	wrote(t, store, "early", phase.Record{Type: phase.RecordBegin, Step: "lock"})
	wrote(t, store, "later", phase.Record{Type: phase.RecordBegin, Step: "lock"}, phase.Record{Type: phase.RecordDone, Step: "lock"})
	for run, want := range map[cluster.RunID]runs.State{"early": runs.Failed, "later": runs.Unfinished} {
		r, err := runs.Read(t.Context(), store, run)
		require.NoError(t, err)
		require.Equal(t, want, r.State)
	}
	lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "early"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
	r, err := runs.Read(t.Context(), store, "early")
	require.NoError(t, err)
	require.Equal(t, runs.Unfinished, r.State)
}

// A restore that died is over once a resolve of the same cluster and backup has finished it, and not by any other run.
func TestList_RestoreThatAResolveFinished_IsDone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		resolve string
		end     phase.Record
		want    runs.State
	}{
		"finished":        {`"name":"prod"},"backup":"b"`, phase.Record{Type: phase.RecordEnd}, runs.Done},
		"failed":          {`"name":"prod"},"backup":"b"`, phase.Record{Type: phase.RecordEnd, Error: "no"}, runs.Unfinished},
		"under way":       {`"name":"prod"},"backup":"b"`, phase.Record{Type: phase.RecordBegin, Step: "recover"}, runs.Unfinished},
		"another cluster": {`"name":"other"},"backup":"b"`, phase.Record{Type: phase.RecordEnd}, runs.Unfinished},
		"another backup":  {`"name":"prod"},"backup":"c"`, phase.Record{Type: phase.RecordEnd}, runs.Unfinished},
		"a namesake":      {`"name":"prod"},"backup":"b","kubernetesUID":"u2"`, phase.Record{Type: phase.RecordEnd}, runs.Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			put := func(id cluster.RunID, second int, about string, last phase.Record) {
				j := journal.NewStoreJournal(store, manifest.JournalPrefix(id))
				for i, r := range []phase.Record{{Type: phase.RecordRun, Data: []byte(about)}, {Type: phase.RecordDone, Step: "lock"}, last} {
					r.Seq, r.Run, r.Time = i+1, id, time.Date(2026, 1, 1, 0, 0, second+i, 0, time.UTC)
					require.NoError(t, j.Append(t.Context(), r))
				}
			}
			put("restore", 0, `{"operation":"restore","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","kubernetesUID":"u1"}`, phase.Record{Type: phase.RecordBegin, Step: "collect"})
			put("resolve", 10, `{"operation":"resolve","cluster":{"namespace":"tidb",`+row.resolve+`}`, row.end)
			all, err := runs.List(t.Context(), store)
			require.NoError(t, err)
			require.Len(t, all, 2)
			assert.Equal(t, row.want, all[1].State)
			one, err := runs.Read(t.Context(), store, "restore")
			require.NoError(t, err)
			assert.Equal(t, row.want, one.State)
			if row.want == runs.Done {
				assert.Equal(t, cluster.RunID("resolve"), one.ResolvedBy)
			}
		})
	}
}
