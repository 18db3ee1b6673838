package ebstest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

func share(t *testing.T, w *wire, id string, operation types.OperationType, accounts ...string) {
	t.Helper()
	_, err := w.sdk().ModifySnapshotAttribute(t.Context(), &ec2.ModifySnapshotAttributeInput{
		SnapshotId: aws.String(id), Attribute: types.SnapshotAttributeNameCreateVolumePermission,
		OperationType: operation, UserIds: accounts,
	})
	require.NoError(t, err)
}

func TestShare_OtherAccount_SeesAndUsesOnlyWhatIsShared(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id, hidden := w.cut(t, v, 2), w.cut(t, v, 1)
	seen := func(in *ec2.DescribeSnapshotsInput) []string {
		out, err := w.guest.sdk().DescribeSnapshots(t.Context(), in)
		require.NoError(t, err)
		var ids []string
		for _, p := range out.Snapshots {
			require.Equal(t, prod, *p.OwnerId)
			require.Empty(t, p.Tags, "tags are the owner's")
			ids = append(ids, *p.SnapshotId)
		}
		return ids
	}
	byID := &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id, hidden}}
	require.Empty(t, seen(byID), "without access they are left out")
	_, err := w.guestAway.sdk().CopySnapshot(t.Context(), copyOf(id))
	require.Equal(t, "InvalidSnapshot.NotFound", codeOf(t, err))

	share(t, w.home, id, "add", other)
	share(t, w.home, id, "add", other, "333333333333") // again
	out, err := w.home.sdk().DescribeSnapshotAttribute(t.Context(), &ec2.DescribeSnapshotAttributeInput{
		SnapshotId: aws.String(id), Attribute: types.SnapshotAttributeNameCreateVolumePermission,
	})
	require.NoError(t, err)
	require.Len(t, out.CreateVolumePermissions, 2)
	require.Equal(t, []string{other, "333333333333"}, w.home.SharedWith(cluster.SnapshotID(id)))
	require.Equal(t, []string{id}, seen(byID))
	require.Equal(t, []string{id}, seen(&ec2.DescribeSnapshotsInput{RestorableByUserIds: []string{"self"}}))
	require.Equal(t, []string{id}, seen(&ec2.DescribeSnapshotsInput{OwnerIds: []string{prod}}))
	require.Empty(t, seen(&ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}))
	_, err = w.guest.sdk().DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id, "snap-0123456789abcdef0"}})
	require.Equal(t, "InvalidSnapshot.NotFound", codeOf(t, err), "an unknown id fails the whole call")
	require.Equal(t, "InvalidSnapshot.NotFound", w.guest.call(t, "DeleteSnapshot", "SnapshotId", id).Code)
	require.Empty(t, w.guest.call(t, "CreateVolume", "AvailabilityZone", string(zone), "SnapshotId", id).Code)

	to := w.guestAway.copied(t, copyOf(id))
	w.clock.Advance(time.Hour)
	require.Equal(t, ebs.SnapshotCompleted, w.guestAway.one(t, to).State)
	require.Empty(t, w.away.Snapshots(), "the copy is its maker's")
	share(t, w.home, id, "remove", other, "333333333333")
	require.Empty(t, seen(byID))
}

func TestShare_WhatCannotBe_Refused(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	plain := w.cut(t, v, 1)
	require.NoError(t, w.home.Encrypt(v, keyOf(prod, west, "default")))
	secret := w.cut(t, v, 1)
	many := slices.Repeat([]string{other}, 501)
	for name, test := range map[string]struct {
		in   ec2.ModifySnapshotAttributeInput
		code string
	}{
		"default key": {ec2.ModifySnapshotAttributeInput{SnapshotId: &secret, OperationType: "add", UserIds: []string{other}}, "OperationNotPermitted"},
		"add and remove": {ec2.ModifySnapshotAttributeInput{SnapshotId: &plain, CreateVolumePermission: &types.CreateVolumePermissionModifications{
			Add: []types.CreateVolumePermission{{UserId: aws.String(other)}}, Remove: []types.CreateVolumePermission{{UserId: aws.String(prod)}},
		}}, "InvalidParameterCombination"},
		"too many":    {ec2.ModifySnapshotAttributeInput{SnapshotId: &plain, OperationType: "add", UserIds: many}, "InvalidParameterValue"},
		"none given":  {ec2.ModifySnapshotAttributeInput{SnapshotId: &plain, OperationType: "add"}, "MissingParameter"},
		"no account":  {ec2.ModifySnapshotAttributeInput{SnapshotId: &plain, OperationType: "add", UserIds: []string{"12"}}, "InvalidUserID.Malformed"},
		"no snapshot": {ec2.ModifySnapshotAttributeInput{SnapshotId: aws.String("snap-0123456789abcdef0"), OperationType: "add", UserIds: []string{other}}, "InvalidSnapshot.NotFound"},
		"dry run":     {ec2.ModifySnapshotAttributeInput{SnapshotId: &plain, OperationType: "add", UserIds: []string{other}, DryRun: aws.Bool(true)}, "DryRunOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.home.sdk().ModifySnapshotAttribute(t.Context(), &test.in)
			require.Equal(t, test.code, codeOf(t, err))
		})
	}
	require.Empty(t, w.home.SharedWith(cluster.SnapshotID(plain)))
}

// Who may read an encrypted snapshot needs its key, too.
func TestShare_EncryptedSnapshot_NeedsItsKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	key := keyOf(prod, west, "own")
	require.NoError(t, w.home.Encrypt(v, key))
	id := w.cut(t, v, 1)
	share(t, w.home, id, "add", other)
	state := func() ebs.SnapshotState {
		to := w.guestAway.copied(t, copyOf(id))
		w.clock.Advance(time.Hour)
		return w.guestAway.one(t, to).State
	}
	volumes := func() int {
		require.Empty(t, w.guest.call(t, "CreateVolume", "AvailabilityZone", string(zone), "SnapshotId", id).Code)
		return len(w.guest.Volumes())
	}
	require.Equal(t, ebs.SnapshotError, state())
	require.Zero(t, volumes(), "it vanishes")
	w.home.ShareKey(key, other)
	require.Equal(t, ebs.SnapshotCompleted, state())
	require.Equal(t, 1, volumes())
}
