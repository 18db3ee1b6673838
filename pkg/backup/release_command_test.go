package backup_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// died writes what a run leaves in storage that is killed within its hold.
func (r *rig) died(t *testing.T, run cluster.RunID, of cluster.Name, paused []string, then ...phase.Record) {
	t.Helper()
	journal := journal.NewStoreJournal(r.store, manifest.JournalPrefix(run))
	about, err := json.Marshal(map[string]any{"operation": "backup", "cluster": of})
	require.NoError(t, err)
	names, err := json.Marshal(paused)
	require.NoError(t, err)
	records := append([]phase.Record{
		{Type: phase.RecordRun, Data: about},
		{Type: phase.RecordBegin, Step: "hold"},
		{Type: phase.RecordIntent, Step: "hold", Name: "pause-schedulers", Data: names},
	}, then...)
	for i, record := range records {
		record.Seq, record.Run, record.Time = i+1, run, time.Now()
		require.NoError(t, journal.Append(t.Context(), record))
	}
}

func TestRelease_OfARunThatDied(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	var names []string
	for _, s := range r.c.PD.Schedulers() {
		names = append(names, s.Name)
		require.NoError(t, r.deps.PD.PauseScheduler(ctx, s.Name, time.Minute))
	}
	require.Len(t, names, 4)
	store := r.c.Stores()[0]
	l, err := r.tikv.OpenLease(ctx, store.Addr())
	require.NoError(t, err)
	_, err = l.Renew(ctx, time.Minute)
	require.NoError(t, err)
	l.Close()
	r.died(t, "dead-1", prod, names[:1])
	r.died(t, "let-go", prod, names[1:2], phase.Record{Type: phase.RecordDone, Step: "release"})
	r.died(t, "undone", prod, names[1:2], phase.Record{Type: phase.RecordUndone, Step: "hold"})
	r.died(t, "other", cluster.Name{Namespace: "tidb", Name: "other"}, names[2:3])
	r.died(t, "not-undone", prod, names[3:], phase.Record{Type: phase.RecordUndoFail, Step: "hold"}, phase.Record{Type: phase.RecordEnd, Error: "x"})
	_, err = runlock.Acquire(ctx, r.store, prod, runlock.Owner{Run: "dead-1", Host: "h", PID: 7, Command: "backup"}, time.Minute)
	require.NoError(t, err)

	_, err = backup.Release(ctx, r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod})
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "dead-1")
	require.Contains(t, failure.HintOf(err), "--force")
	require.Empty(t, filter(r.c.PD.MutatingCalls(), "ResumeScheduler"))

	done, err := backup.Release(ctx, r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, Force: true})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{names[0], names[3]}, done.Schedulers)
	require.ElementsMatch(t, names[1:3], done.Kept)
	require.Equal(t, []cluster.StoreID{cluster.StoreID(store.ID())}, done.Leases)
	r.requireUnlocked(t)
	lock, _, err := runlock.Read(ctx, r.store, prod)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), lock.ReleasedAt, time.Minute)

	done, err = backup.Release(ctx, r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, All: true})
	require.NoError(t, err)
	require.ElementsMatch(t, names[1:3], done.Schedulers)
	require.Empty(t, r.held(ctx))
}

// What a release relies on is in the journal of every real run.
func TestRun_JournalsTheSchedulersBeforeItPausesThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var paused []string
	r.store.lose = manifest.SealFile
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	for _, record := range r.journal(t, o) {
		if record.Name == "pause-schedulers" {
			require.Equal(t, phase.RecordIntent, record.Type)
			require.NoError(t, json.Unmarshal(record.Data, &paused))
		}
	}
	require.Len(t, paused, 4)
	done, err := backup.Release(t.Context(), r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod})
	require.NoError(t, err)
	require.False(t, done.Any())
}

func filter(calls []string, prefix string) []string {
	var out []string
	for _, c := range calls {
		if len(c) >= len(prefix) && c[:len(prefix)] == prefix {
			out = append(out, c)
		}
	}
	return out
}
