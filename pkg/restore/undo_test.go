package restore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Two restores of one backup run side by side, into two clusters: what the one that fails deletes is its own.
func TestRun_FailsBesideAnotherRestoreOfTheBackup_DeletesOnlyItsOwnVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	snapshot := l.bed.EC2.Snapshots()[0]
	theirs, err := l.ebs.CreateVolume(ctx, ebs.VolumeRequest{
		Token: "theirs", Snapshot: snapshot.ID, Zone: "us-west-2a", Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100, IOPS: 3000, ThroughputMiB: 125},
		Tags: ebs.Tags{ebs.TagRun: "theirs", ebs.TagBackup: "b", ebs.TagCluster: "tidb/other", ebs.TagSnapshot: string(snapshot.ID)},
	})
	require.NoError(t, err)
	_, err = l.restore(ctx, t, &cancelAt{step: "bind-volumes", cancel: cancel}, nil)
	require.ErrorIs(t, err, context.Canceled)
	left := l.volumes()
	require.Len(t, left, 1)
	require.Equal(t, theirs.ID, left[0].ID)
	require.Nil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
}

// A restore with a short --timeout whose requests lost their answers waits in its undo for what EC2 may still show: with
// less time it could never be undone, and so never be run again.
func TestRun_ShortTimeout_UndoOutlastsWhatEC2Hides(t *testing.T) {
	t.Parallel()
	require.Greater(t, restore.UndoDeadline(journal.StepCreateVolumes, restore.Options{Timeout: time.Second}), ebs.VisibleWithin)
}

// A run was suspended, and another one has taken its lock over. It fails for another reason before it has noticed:
// the cluster and the volumes are the other one's.
func TestRun_FailsWhileAnotherRunHasTheLock_LeavesTheCluster(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"bind-volumes", "await-stores"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			_, err := l.restore(ctx, t, &cancelAt{step: step, cancel: func() {
				lock, _, err := runlock.Read(ctx, l.store, target())
				require.NoError(t, err)
				require.NoError(t, runlock.Break(ctx, l.store, target(), lock.Epoch))
				_, err = runlock.Acquire(ctx, l.store, target(), runlock.Owner{Run: "theirs", Command: "resolve"}, time.Minute)
				require.NoError(t, err)
				cancel()
			}}, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, l.volumes(), 6)
			require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
			lock, _, err := runlock.Read(t.Context(), l.store, target())
			require.NoError(t, err)
			require.True(t, lock.Held(time.Now()))
			require.EqualValues(t, "theirs", lock.Owner.Run)
		})
	}
}

// EC2 makes a volume, its answer is lost, the run is cancelled, and for a second EC2 does not show the volume.
func TestRun_VolumeHiddenWhileItIsUndone_IsFoundAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	hider := &hiding{cancel: cancel}
	l.wrap = func(e restore.EBS) restore.EBS { hider.EBS = e; return hider }
	_, err := l.restore(ctx, t, nil, nil)
	require.ErrorContains(t, err, "the answer is lost")
	require.NotEmpty(t, hider.hidden)
	l.nothingLeft(t)
}

// hiding is an EC2 that loses the answer of its last CreateVolume, and hides that volume at first.
type hiding struct {
	restore.EBS
	cancel context.CancelFunc
	mu     sync.Mutex
	made   int
	hidden cluster.VolumeID
	until  time.Time
}

func (h *hiding) CreateVolume(ctx context.Context, r ebs.VolumeRequest) (ebs.Volume, error) {
	v, err := h.EBS.CreateVolume(ctx, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made++; err != nil || h.made < 6 {
		return v, err
	}
	h.hidden, h.until = v.ID, time.Now().Add(time.Second)
	h.cancel()
	return ebs.Volume{}, failure.New(failure.Unknown, "create volume", string(r.Snapshot), "the answer is lost")
}

func (h *hiding) FindVolumes(ctx context.Context, tags ebs.Tags) ([]ebs.Volume, error) {
	found, err := h.EBS.FindVolumes(ctx, tags)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(found, func(v ebs.Volume) bool { return v.ID == h.hidden && time.Now().Before(h.until) }), err
}
