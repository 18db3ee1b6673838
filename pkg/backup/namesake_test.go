package backup_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// namesakePD is the PD of another cluster of the same name.
type namesakePD struct{ backup.PD }

const namesakeID = 77

func (namesakePD) ClusterID(context.Context) (uint64, error) { return namesakeID, nil }

// The run of another cluster of the same name is neither continued nor undone, whoever asks for it: what it cut would be taken
// for this cluster's backup, and what it made would go.
// Catalogue: H3.
func TestRunOfANamesake_IsNeitherContinuedNorUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	_, left := r.diesAt(t, o, "record")
	r.deps.PD = namesakePD{r.deps.PD}
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "PD's cluster id 77")
	err = backup.Abort(t.Context(), r.deps, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "PD's cluster id 77")
	_, _, err = left.Get(t.Context(), manifest.SealKey(o.Backup))
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	require.Len(t, r.bed.EC2.Snapshots(), 6, "all of them stay")
}

// Journals of older versions name their cluster only with the proof of its cut.
func TestRun_OlderRunOfANamesake_IsNeitherContinuedNorUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	_, left := r.diesAt(t, o, "seal")
	forgetCluster(t, left, o)
	own := r.deps.PD
	r.deps.PD = namesakePD{own}
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "PD's cluster id 77")
	require.Equal(t, failure.Conflict, failure.KindOf(backup.Abort(t.Context(), r.deps, o)))
	require.Len(t, r.bed.EC2.Snapshots(), 6, "all of them stay")

	r.deps.PD = own
	_, err = r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
}

// forgetCluster makes the journal of a run one of a version that did not note its cluster.
func forgetCluster(t *testing.T, store objstore.Store, o backup.Options) {
	t.Helper()
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(o.Run))
	records, err := j.Records(t.Context())
	require.NoError(t, err)
	about, err := journal.ReadAbout(o.Run, records[0])
	require.NoError(t, err)
	require.NotZero(t, about.ClusterID)
	about.ClusterID = 0
	records[0].Data, err = json.Marshal(about)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), manifest.JournalKey(o.Run, 1)))
	require.NoError(t, j.Append(t.Context(), records[0]))
}

// A lock that a namesake's run holds does not concern this cluster: a release neither waits for it nor breaks it, and takes
// nothing that the run has paused for this cluster's.
func TestRelease_LockOfANamesake_StaysAsItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	scheduler := r.c.PD.Schedulers()[0].Name
	r.died(t, "namesake", prod, []string{scheduler})
	o := r.options()
	o.Run = "namesake"
	j := journal.NewStoreJournal(r.store, manifest.JournalPrefix(o.Run))
	records, err := j.Records(t.Context())
	require.NoError(t, err)
	records[0].Data, err = json.Marshal(journal.About{Operation: journal.Backup, Cluster: prod, ClusterID: namesakeID})
	require.NoError(t, err)
	require.NoError(t, r.store.Delete(t.Context(), manifest.JournalKey(o.Run, 1)))
	require.NoError(t, j.Append(t.Context(), records[0]))
	lock, err := runlock.Acquire(t.Context(), r.store, prod, runlock.Owner{Run: o.Run}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, r.deps.PD.PauseScheduler(t.Context(), scheduler, time.Minute))
	for _, force := range []bool{false, true} {
		done, err := backup.Release(t.Context(), r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, Force: force})
		require.NoError(t, err)
		require.Empty(t, done.Schedulers)
		require.Equal(t, []string{scheduler}, done.Kept)
	}
	require.NoError(t, lock.Renew(t.Context()), "it is not broken")
}

// An aborted run gives its name back, once nothing of it is left; not if its seal may still arrive.
func TestAbort_FreesTheName(t *testing.T) {
	t.Parallel()
	for step, free := range map[string]bool{"cut": true, "record": true, "seal": false} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.options()
			r.diesAt(t, o, step)
			names := catalog.Catalog{Store: r.deps.Store}
			err := names.CheckFree(t.Context(), o.Backup)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), "tisnap delete "+string(o.Backup))
			require.NoError(t, backup.Abort(t.Context(), r.deps, o))
			require.Empty(t, r.bed.EC2.Snapshots())
			err = names.CheckFree(t.Context(), o.Backup)
			require.Equal(t, free, err == nil, err)
		})
	}
}

// What an abort that was killed after its last record has left of the name is given up by the next one.
func TestFree_OfAnAbortThatWasKilled(t *testing.T) { //nolint:tparallel // the parts share a backup
	t.Parallel()
	r := newRig(t)
	o := r.options()
	r.diesAt(t, o, "record")
	names, j := catalog.Catalog{Store: r.deps.Store}, journal.NewStoreJournal(r.deps.Store, manifest.JournalPrefix(o.Run))
	free := func(t *testing.T) bool {
		t.Helper()
		h, err := phase.ReadHistory(t.Context(), j)
		require.NoError(t, err)
		freed, err := backup.Free(t.Context(), r.deps.Store, o.Backup, o.Run, h, func() error { return nil })
		require.NoError(t, err)
		return freed
	}
	require.False(t, free(t), "it has not ended: its snapshots are there")
	require.Error(t, names.CheckFree(t.Context(), o.Backup))
	require.NoError(t, backup.Abort(t.Context(), r.deps, o))
	require.False(t, free(t), "the name is free")
	for _, row := range []struct {
		name  string
		by    cluster.RunID
		left  func(t *testing.T)
		freed bool
	}{
		{"before it began", o.Run, func(*testing.T) {}, true},
		{"in its middle", o.Run, func(t *testing.T) {
			t.Helper()
			require.NoError(t, names.Bury(t.Context(), o.Backup, o.Run, "removed", true))
			require.NoError(t, r.deps.Store.Delete(t.Context(), manifest.ClaimKey(o.Backup)))
		}, true},
		{"another run has the name", "other", func(*testing.T) {}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, names.Claim(t.Context(), catalog.Claim{ID: o.Backup, Run: row.by, Cluster: prod, ClaimedAt: time.Now()}))
			row.left(t)
			require.Equal(t, row.freed, free(t))
			require.Equal(t, row.freed, names.CheckFree(t.Context(), o.Backup) == nil)
		})
	}
}
