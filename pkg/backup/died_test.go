package backup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// copyOf is a store with the same objects.
func copyOf(ctx context.Context, store objstore.Store) (objstore.Store, error) {
	out := objstoretest.NewMemory(nil)
	objects, err := store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		body, _, err := store.Get(ctx, o.Key)
		if err != nil {
			return nil, err
		}
		if _, err := out.Create(ctx, o.Key, body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// diesAt is the storage that a process leaves which is killed as the step begins, and what it would have made. The rig
// continues with it; its lock has run out.
func (r *rig) diesAt(t *testing.T, o backup.Options, step string) (*backup.Result, objstore.Store) {
	t.Helper()
	var left objstore.Store
	var copied error
	r.events.at(step, func() { left, copied = copyOf(t.Context(), r.store) })
	first, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.NoError(t, copied)
	require.NotNil(t, left, "there is no step %s", step)
	r.events.at("", nil)
	r.continues(t, left)
	return first, left
}

// continues makes the rig continue with what a process has left, whose lock has run out.
func (r *rig) continues(t *testing.T, left objstore.Store) {
	t.Helper()
	lock, _, err := runlock.Read(t.Context(), left, prod)
	require.NoError(t, err)
	require.NoError(t, runlock.Break(t.Context(), left, prod, lock.Epoch))
	r.store.Store = left
}

// The process that seals what another one has cut has times of its own; the backup is as old as its cut, whoever seals it.
func TestRun_DiesAfterItsCut_EachProcessHasItsTimes(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"it has no manifest yet": "record", "it has a manifest": "seal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.options()
			first, _ := r.diesAt(t, o, step)
			second, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			r.requireSealed(t, o)
			require.Len(t, second.Before, 1)
			before := second.Before[0]
			assert.WithinRange(t, before.Start, first.Started, first.Finished)
			assert.False(t, second.Started.Before(before.End), "it began at %s, and the process before it ended at %s", second.Started, before.End)
			assert.False(t, second.Started.After(second.Finished))
			assert.WithinDuration(t, first.Started, second.Manifest.CreatedAt, 0, "the cut is of then")
			assert.WithinDuration(t, first.Hold.Start, second.Hold.Start, 0)
		})
	}
}

// Should the first process only have slept, in its undo, the snapshots are not its own any more.
func TestRun_DiesAfterItsCut_SnapshotsAreOfTheNextProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	r.diesAt(t, o, "record")
	for _, snap := range r.bed.EC2.Snapshots() {
		require.EqualValues(t, 1, snap.Tags.Epoch())
	}
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	lock, _, err := runlock.Read(t.Context(), r.store, prod)
	require.NoError(t, err)
	for _, snap := range r.bed.EC2.Snapshots() {
		require.Equal(t, lock.Epoch, snap.Tags.Epoch())
	}
}

// A lock that cannot be read is deleted by hand, as its error advises. The next owner's epoch is above the run's all the same.
func TestRun_LockDeletedSinceTheRunDied_IsContinued(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	_, left := r.diesAt(t, o, "seal")
	require.NoError(t, left.Delete(t.Context(), manifest.LockKey(prod)))
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	lock, _, err := runlock.Read(t.Context(), left, prod)
	require.NoError(t, err)
	require.EqualValues(t, 2, lock.Epoch)
}

// The lock was not seen to be lost, for whatever reason: the snapshots prove that another process has had it since.
func TestRun_UndoFindsSnapshotsOfALaterProcess_KeepsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) { rules.Invisible = ebstest.Span{} }) // none is deleted by the answer alone
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 4, Code: "UnauthorizedOperation"})
	r.ebs.tags = ebs.Tags{ebs.TagEpoch: "2"}
	_, err := r.run(t.Context(), t, r.options())
	require.ErrorContains(t, err, "is another process's, which has had the lock since: its epoch is 2, and this one's 1")
	require.NotEmpty(t, r.bed.EC2.Snapshots())
	require.Empty(t, r.held(t.Context()), "the cluster is released all the same")
}

// A run dies while it deletes the snapshots of a backup whose seal was refused: a tombstone stands in the seal's place, and the
// next process finds out before it holds the cluster for a backup that can never be sealed.
func TestRun_DiesInTheUndoOfASeal_HoldsNothingForTheSameBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.refuse = manifest.SealFile
	o := r.options()
	var left objstore.Store
	var copied error
	r.ebs.beforeDelete = func() {
		if left == nil {
			left, copied = copyOf(t.Context(), r.store)
		}
	}
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.NoError(t, copied)
	require.NotNil(t, left, "nothing was deleted")
	r.ebs.beforeDelete, r.store.refuse = nil, ""
	r.continues(t, left)
	asked := false
	r.ebs.cut = func(_ ebs.CutRequest, call func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error) {
		asked = true
		return call()
	}
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "may already be sealed, so its id cannot be reused")
	require.False(t, asked, "snapshots were taken that cannot be sealed")
	r.requireUndone(t, o)
}
