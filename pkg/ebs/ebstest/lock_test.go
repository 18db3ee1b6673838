package ebstest_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
)

func TestLock_Governance_UntilUnlocked(t *testing.T) {
	t.Parallel()
	w := start(t, 100)
	v, _ := w.volume(t)
	id := w.snapshotOf(t, v, 1)
	ctx := t.Context()
	lock := &ec2.LockSnapshotInput{SnapshotId: id, LockMode: types.LockModeGovernance, LockDuration: aws.Int32(2)}
	locked, err := w.sdk().LockSnapshot(ctx, lock)
	require.NoError(t, err)
	require.Equal(t, types.LockStateGovernance, locked.LockState)
	require.Equal(t, 48*time.Hour, locked.LockExpiresOn.Sub(*locked.LockDurationStartTime).Round(time.Second))
	_, err = w.sdk().DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: id})
	require.Equal(t, "SnapshotLocked", codeOf(t, err))
	require.Len(t, w.Snapshots(), 1)
	all, err := w.sdk().DescribeLockedSnapshots(ctx, &ec2.DescribeLockedSnapshotsInput{SnapshotIds: []string{*id}})
	require.NoError(t, err)
	require.Len(t, all.Snapshots, 1)
	require.Equal(t, *id, *all.Snapshots[0].SnapshotId)
	_, err = w.sdk().UnlockSnapshot(ctx, &ec2.UnlockSnapshotInput{SnapshotId: id})
	require.NoError(t, err)
	_, err = w.sdk().DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: id})
	require.NoError(t, err)
	require.Empty(t, w.Snapshots())
}

func TestLock_Compliance_NobodyUndoesIt(t *testing.T) {
	t.Parallel()
	w := start(t, 36000) // 10 hours a second
	v, _ := w.volume(t)
	id := w.snapshotOf(t, v, 1)
	ctx := t.Context()
	_, err := w.sdk().LockSnapshot(ctx, &ec2.LockSnapshotInput{
		SnapshotId: id, LockMode: types.LockModeCompliance, LockDuration: aws.Int32(3650), CoolOffPeriod: aws.Int32(1),
	})
	require.NoError(t, err)
	state := func() types.LockState {
		all, err := w.sdk().DescribeLockedSnapshots(ctx, &ec2.DescribeLockedSnapshotsInput{})
		require.NoError(t, err)
		return all.Snapshots[0].LockState
	}
	eventually(t, "cooled off", func() bool { return state() == types.LockStateCompliance })
	_, err = w.sdk().UnlockSnapshot(ctx, &ec2.UnlockSnapshotInput{SnapshotId: id})
	require.Equal(t, "OperationNotPermitted", codeOf(t, err))
	_, err = w.sdk().LockSnapshot(ctx, &ec2.LockSnapshotInput{SnapshotId: id, LockMode: types.LockModeCompliance, LockDuration: aws.Int32(1)})
	require.Equal(t, "OperationNotPermitted", codeOf(t, err), "it can only be made longer")
}

func TestCopySnapshot_Encrypted_NewKeyAndNoTags(t *testing.T) {
	t.Parallel()
	w := start(t, 20, func(r *ebstest.Rules) { r.CopiesInProgress, r.CopyRate = 1, 1<<10 }) // 64 s of a page
	v, _ := w.volume(t)
	id := w.snapshotOf(t, v, 1)
	require.Empty(t, w.call(t, "CreateTags", "ResourceId.1", *id, "Tag.1.Key", "k", "Tag.1.Value", "v").Code)
	copying := &ec2.CopySnapshotInput{
		SourceRegion: aws.String(w.Region()), SourceSnapshotId: id, Encrypted: aws.Bool(true), KmsKeyId: aws.String("arn:key"),
	}
	out, err := w.sdk().CopySnapshot(t.Context(), copying)
	require.NoError(t, err)
	_, err = w.sdk().CopySnapshot(t.Context(), copying)
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, err))
	copied := w.Snapshots()[1]
	require.Equal(t, *out.SnapshotId, string(copied.ID))
	require.Equal(t, "arn:key", copied.KMSKey)
	require.Empty(t, copied.Tags)
	eventually(t, "copied", func() bool { return w.Snapshots()[1].Progress == 100 })
}
