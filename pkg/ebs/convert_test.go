package ebs

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"
)

func TestSnapshotOf_ArchiveTier(t *testing.T) {
	t.Parallel()
	require.True(t, snapshotOf(types.Snapshot{StorageTier: types.StorageTierArchive}).Archived)
	require.False(t, snapshotOf(types.Snapshot{StorageTier: types.StorageTierStandard}).Archived)
	require.False(t, snapshotOf(types.Snapshot{}).Archived)
}
