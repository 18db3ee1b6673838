package gc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// elsewhere is a store with the same objects at another place: a bucket that is synced.
type elsewhere struct{ objstore.Store }

func (elsewhere) URL() string { return "s3://copy/prefix" }

// A copy of the storage has the original's journals: nothing that these name is deleted by it, in no way.
func TestCollect_InACopyOfTheStorage_DeletesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	_, err := storage.Open(t.Context(), p.deps.Store, "")
	require.NoError(t, err)
	deps := p.deps
	deps.Store = elsewhere{p.deps.Store}
	for _, dryRun := range []bool{true, false} {
		_, err = Collect(t.Context(), deps, Options{Rate: fast, DryRun: dryRun})
		require.Equal(t, failure.Unready, failure.KindOf(err), err)
		require.Contains(t, failure.HintOf(err), "--adopt-storage")
		_, err = Delete(t.Context(), deps, DeleteOptions{Backup: "b", Last: true, Rate: fast, DryRun: dryRun})
		require.Equal(t, failure.Unready, failure.KindOf(err), err)
		o := keepLast(1)
		o.DryRun = dryRun
		_, err = Prune(t.Context(), deps, o)
		require.Equal(t, failure.Unready, failure.KindOf(err), err)
	}
	require.Len(t, p.ec2.ids(), 2)
}

// Two storages that were one: each deletes only what carries its own id.
func TestCollect_SnapshotOfAnotherStorage_IsKeptAndReported(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s, err := storage.Open(t.Context(), p.deps.Store, "")
	require.NoError(t, err)
	p.ec2.snapshots["snap-1"].Tags[ebs.TagStorage] = "another"
	p.ec2.snapshots["snap-2"].Tags[ebs.TagStorage] = s.ID
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, ActionKeep, actions(report)["snap-1"])
	require.Equal(t, ActionDeleted, actions(report)["snap-2"])
}

// Of a backup whose snapshots another storage made, nothing is deleted.
func TestDelete_SnapshotOfAnotherStorage_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	p.ec2.snapshots["snap-1"].Tags[ebs.TagStorage] = "another"
	_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), err)
	require.Len(t, p.ec2.ids(), 2)
	require.False(t, p.buried(t))
}

// What looks and deletes nothing writes nothing: not even which storage this is.
func TestNothingToDelete_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	delete(p.ec2.snapshots, "snap-2") // nothing names it
	before, err := p.deps.Store.List(t.Context(), "")
	require.NoError(t, err)
	for _, dryRun := range []bool{true, false} {
		_, err := Collect(t.Context(), p.deps, Options{Rate: fast, DryRun: dryRun})
		require.NoError(t, err)
		_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "absent", Rate: fast, DryRun: dryRun})
		require.NoError(t, err)
		o := keepLast(1)
		o.DryRun = dryRun
		_, err = Prune(t.Context(), p.deps, o)
		require.NoError(t, err)
	}
	after, err := p.deps.Store.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.NoError(t, err)
	s, err := storage.Read(t.Context(), p.deps.Store)
	require.NoError(t, err)
	require.NotEmpty(t, s.ID, "what deletes proves the locks first, and records that in the storage")
}

// A storage that was copied over between the look and the deletion is another one.
func TestEstablish_AnotherIdentityMeanwhile_IsAConflict(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := storage.Open(t.Context(), p.deps.Store, "")
	require.NoError(t, err)
	w := &world{}
	require.NoError(t, w.openStorage(t.Context(), p.deps))
	require.NoError(t, w.establish(t.Context(), p.deps))
	w.storage.ID = "another"
	require.Equal(t, failure.Conflict, failure.KindOf(w.establish(t.Context(), p.deps)))
}
