package ebs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"
)

func TestSnapshotOf_ArchiveTier(t *testing.T) {
	t.Parallel()
	require.True(t, snapshotOf(types.Snapshot{StorageTier: types.StorageTierArchive}).Archived)
	require.False(t, snapshotOf(types.Snapshot{StorageTier: types.StorageTierStandard}).Archived)
	require.False(t, snapshotOf(types.Snapshot{}).Archived)
	for _, tier := range types.StorageTier("").Values() {
		until := time.Now().Add(time.Hour)
		back := snapshotOf(types.Snapshot{StorageTier: tier, RestoreExpiryTime: &until})
		require.False(t, back.Archived, "it is back, in whatever tier it is reported")
		require.Equal(t, until, back.RestoredUntil)
		until = time.Now().Add(-time.Hour)
		gone := snapshotOf(types.Snapshot{StorageTier: tier, RestoreExpiryTime: &until})
		require.Equal(t, tier == types.StorageTierArchive, gone.Archived)
		require.Zero(t, gone.RestoredUntil)
	}
}
