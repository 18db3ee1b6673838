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
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

func (w *wire) archive(t *testing.T, id string) error {
	t.Helper()
	_, err := w.sdk().ModifySnapshotTier(t.Context(), &ec2.ModifySnapshotTierInput{
		SnapshotId: aws.String(id), StorageTier: types.TargetStorageTierArchive,
	})
	return err
}

// bringBack restores an archived snapshot for so many days, or for good if they are 0.
func (w *wire) bringBack(t *testing.T, id string, days int32) error {
	t.Helper()
	in := &ec2.RestoreSnapshotTierInput{SnapshotId: aws.String(id), PermanentRestore: aws.Bool(days == 0)}
	if days > 0 {
		in.TemporaryRestoreDays = aws.Int32(days)
	}
	out, err := w.sdk().RestoreSnapshotTier(t.Context(), in)
	if err == nil {
		require.Equal(t, days == 0, *out.IsPermanentRestore)
		require.Equal(t, days, aws.ToInt32(out.RestoreDuration))
	}
	return err
}

// tier is where a snapshot is, as both calls report it, with the state of the last operation.
func (w *wire) tier(t *testing.T, id string) (types.StorageTier, types.TieringOperationStatus) {
	t.Helper()
	out, err := w.sdk().DescribeSnapshotTierStatus(t.Context(), &ec2.DescribeSnapshotTierStatusInput{
		Filters: []types.Filter{{Name: aws.String("snapshot-id"), Values: []string{id}}},
	})
	require.NoError(t, err)
	require.Len(t, out.SnapshotTierStatuses, 1)
	status := out.SnapshotTierStatuses[0]
	described, err := w.sdk().DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	require.NoError(t, err)
	require.Equal(t, status.StorageTier, described.Snapshots[0].StorageTier)
	require.Equal(t, status.RestoreExpiryTime, described.Snapshots[0].RestoreExpiryTime)
	require.Equal(t, status.StorageTier == types.StorageTierArchive, w.one(t, cluster.SnapshotID(id)).Archived)
	return status.StorageTier, status.LastTieringOperationStatus
}

func TestTier_ThereAndBack_TakesHoursAndCannotBeCancelled(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 1)
	require.Equal(t, "IncorrectState", codeOf(t, w.home.bringBack(t, id, 0)), "it was never archived")
	require.NoError(t, w.home.archive(t, id))
	is := func(tier types.StorageTier, last types.TieringOperationStatus) {
		t.Helper()
		gotTier, gotLast := w.home.tier(t, id)
		require.Equal(t, tier, gotTier)
		require.Equal(t, last, gotLast)
	}
	is(types.StorageTierStandard, types.TieringOperationStatusArchivalInProgress)
	require.Equal(t, "IncorrectState", codeOf(t, w.home.archive(t, id)), "it is being archived")
	require.Equal(t, "IncorrectState", codeOf(t, w.home.bringBack(t, id, 0)))
	w.clock.Advance(24 * time.Hour)
	is(types.StorageTierArchive, types.TieringOperationStatusArchivalCompleted)

	require.NoError(t, w.home.bringBack(t, id, 2))
	is(types.StorageTierArchive, types.TieringOperationStatusTemporaryRestoreInProgress)
	require.Equal(t, "IncorrectState", codeOf(t, w.home.bringBack(t, id, 1)), "it is being restored")
	w.clock.Advance(72 * time.Hour)
	is(types.StorageTierStandard, types.TieringOperationStatusTemporaryRestoreCompleted)
	require.Equal(t, "IncorrectState", codeOf(t, w.home.archive(t, id)), "its archived copy is kept")
	w.clock.Advance(49 * time.Hour)
	is(types.StorageTierArchive, types.TieringOperationStatusTemporaryRestoreCompleted)

	require.NoError(t, w.home.bringBack(t, id, 1))
	w.clock.Advance(73 * time.Hour)
	require.NoError(t, w.home.bringBack(t, id, 0), "the one on loan stays for good, at once")
	is(types.StorageTierStandard, types.TieringOperationStatusPermanentRestoreCompleted)
	w.clock.Advance(1000 * time.Hour)
	is(types.StorageTierStandard, types.TieringOperationStatusPermanentRestoreCompleted)
	require.NoError(t, w.home.archive(t, id), "again")
}

func TestTier_Archived_CannotBeUsedUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 1)
	share(t, w.home, id, "add", other)
	enable := func() *ec2.EnableFastSnapshotRestoresOutput {
		out, err := w.home.sdk().EnableFastSnapshotRestores(t.Context(), &ec2.EnableFastSnapshotRestoresInput{
			SourceSnapshotIds: []string{id}, AvailabilityZones: []string{string(zone)},
		})
		require.NoError(t, err)
		return out
	}
	enable()
	uses := func() (codes []string) {
		codes = append(codes, w.home.call(t, "CreateVolume", "AvailabilityZone", string(zone), "SnapshotId", id).Code)
		_, err := w.away.sdk().CopySnapshot(t.Context(), copyOf(id))
		if err != nil {
			codes = append(codes, codeOf(t, err))
		}
		return append(codes, w.home.call(t, "ModifySnapshotAttribute", "SnapshotId", id, "OperationType", "add", "UserId.1", "333333333333").Code)
	}
	require.NoError(t, w.home.archive(t, id))
	require.Equal(t, []string{"", ""}, uses(), "while it is being archived it can be used")
	w.clock.Advance(24 * time.Hour)
	require.Equal(t, []string{"IncorrectState", "IncorrectState", "IncorrectState"}, uses())
	require.Empty(t, w.home.SharedWith(cluster.SnapshotID(id)), "it is no longer shared")
	require.Empty(t, w.home.FastRestores(), "fast restore is off")
	require.Len(t, enable().Unsuccessful, 1)
	require.Empty(t, w.home.call(t, "LockSnapshot", "SnapshotId", id, "LockMode", "governance", "LockDuration", "30").Code)
	require.NoError(t, w.home.bringBack(t, id, 0))
	require.Equal(t, []string{"IncorrectState", "IncorrectState", "IncorrectState"}, uses(), "for 72 hours")
	w.clock.Advance(72 * time.Hour)
	require.Equal(t, []string{"", ""}, uses())
}

func TestTier_NewestCopyIsArchived_NextIsFull(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	first, second := w.cut(t, v, 5), w.cut(t, v, 2)
	one := w.away.copied(t, copyOf(first))
	w.clock.Advance(time.Hour)
	require.NoError(t, w.away.archive(t, string(one)))
	w.clock.Advance(24 * time.Hour)
	w.away.copied(t, copyOf(second))
	w.clock.Advance(time.Hour)
	require.NoError(t, w.away.bringBack(t, string(one), 0))
	w.clock.Advance(72 * time.Hour)
	w.away.copied(t, copyOf(second))
	copies := w.away.Copies()
	require.Equal(t, []string{ebstest.FullFirst, ebstest.FullArchive, ""}, []string{copies[0].Full, copies[1].Full, copies[2].Full})
	require.Equal(t, int64(5*disk.PageSize), copies[1].Bytes)
}

func TestTier_WhatCannotBeMoved_Refused(t *testing.T) {
	t.Parallel()
	w := startWorld(t, func(r *ebstest.Rules) {
		r.Tiers = ebstest.TierRules{Archivals: 1, Restores: 1, PerVolume: 1, Archival: time.Hour, Restore: time.Hour}
	})
	v, _ := w.home.volume(t)
	ids := []string{w.cut(t, v, 1), w.cut(t, v, 1)}
	restore := func(args ...string) string {
		return w.home.call(t, "RestoreSnapshotTier", append([]string{"SnapshotId", ids[0]}, args...)...).Code
	}
	share(t, w.home, ids[0], "add", other)
	require.Equal(t, "InvalidSnapshot.NotFound", codeOf(t, w.guest.archive(t, ids[0])), "of another account")
	require.Equal(t, "InvalidParameterValue", w.home.call(t, "ModifySnapshotTier", "SnapshotId", ids[0], "StorageTier", "standard").Code)
	require.Empty(t, w.home.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	pending := w.home.Snapshots()[2].ID
	require.Equal(t, "IncorrectState", codeOf(t, w.home.archive(t, string(pending))))
	require.NoError(t, w.home.archive(t, ids[0]))
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, w.home.archive(t, ids[1])), "one at a time")
	w.clock.Advance(time.Hour)
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, w.home.archive(t, ids[1])), "one of a volume")
	u, _ := w.home.volume(t)
	second := w.cut(t, u, 1)
	require.NoError(t, w.home.archive(t, second))
	w.clock.Advance(time.Hour)
	require.NoError(t, w.home.bringBack(t, second, 0))
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, w.home.bringBack(t, ids[0], 0)), "one at a time")
	w.clock.Advance(time.Hour)
	require.Equal(t, "InvalidParameterCombination", restore())
	require.Equal(t, "InvalidParameterCombination", restore("PermanentRestore", "true", "TemporaryRestoreDays", "1"))
	require.Equal(t, "InvalidParameterValue", restore("TemporaryRestoreDays", "0"))
	require.Equal(t, "DryRunOperation", restore("TemporaryRestoreDays", "1", "DryRun", "true"))
}
