package ebstest_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
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

func TestLock_Compliance_CannotBeUndone(t *testing.T) {
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
	w := start(t, 20, func(r *ebstest.Rules) { r.Copies.InProgress, r.Copies.Rate = 1, 1<<10 }) // 64 s of a page
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

func TestLock_OfACopy_IsItsOwn(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 60)
	lock := func(w *wire, id string, change ...func(*ec2.LockSnapshotInput)) (*ec2.LockSnapshotOutput, error) {
		in := &ec2.LockSnapshotInput{SnapshotId: aws.String(id), LockMode: types.LockModeCompliance, LockDuration: aws.Int32(2)}
		for _, c := range change {
			c(in)
		}
		return w.sdk().LockSnapshot(t.Context(), in)
	}
	_, err := lock(w.home, id)
	require.NoError(t, err)
	to := string(w.away.copied(t, copyOf(id)))
	require.Empty(t, w.away.call(t, "DeleteSnapshot", "SnapshotId", to).Code, "the source's lock is not copied")

	to = string(w.away.copied(t, copyOf(id)))
	pending, err := lock(w.away, to)
	require.NoError(t, err)
	require.Nil(t, pending.LockExpiresOn)
	w.clock.Advance(time.Hour)
	all, err := w.away.sdk().DescribeLockedSnapshots(t.Context(), &ec2.DescribeLockedSnapshotsInput{SnapshotIds: []string{to}})
	require.NoError(t, err)
	p := w.away.one(t, cluster.SnapshotID(to))
	require.WithinDuration(t, p.CompletedAt.AddDate(0, 0, 2), *all.Snapshots[0].LockExpiresOn, time.Second, "it runs from the completion")

	_, err = lock(w.away, to, func(in *ec2.LockSnapshotInput) { in.LockDuration, in.CoolOffPeriod = aws.Int32(9), aws.Int32(1) })
	require.Equal(t, "OperationNotPermitted", codeOf(t, err), "no second cooling-off")
	_, err = lock(w.away, to, func(in *ec2.LockSnapshotInput) {
		in.LockDuration, in.ExpirationDate = nil, aws.Time(w.clock.Now().AddDate(0, 0, 3))
	})
	require.NoError(t, err, "longer, by date")
	require.Equal(t, "SnapshotLocked", w.away.call(t, "DeleteSnapshot", "SnapshotId", to).Code)
	w.clock.Advance(4 * 24 * time.Hour)
	require.Empty(t, w.away.call(t, "DeleteSnapshot", "SnapshotId", to).Code)

	w.away.DeleteKey("k")
	failing := string(w.away.copied(t, copyOf(id, withKey("k"))))
	_, err = lock(w.away, failing)
	require.NoError(t, err)
	w.clock.Advance(time.Hour)
	require.Empty(t, w.away.call(t, "DeleteSnapshot", "SnapshotId", failing).Code, "the lock of one that fails is void")
}
