package restore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore"
)

// archive is EC2 with the first snapshot of each answer in the archive tier.
type archive struct{ restore.EBS }

func (a archive) DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	found, err := a.EBS.DescribeSnapshots(ctx, ids)
	if len(found) > 0 {
		found[0].Archived = true
	}
	return found, err
}

// A snapshot in the archive tier is refused before anything is made, with what brings it back.
func TestRestore_SnapshotInTheArchiveTier_IsRefusedInPreflight(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.wrap = func(e restore.EBS) restore.EBS { return archive{e} }
	_, err := l.restore(t.Context(), t, nil, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1 of 6 are in the archive tier: snap-")
	require.Contains(t, failure.HintOf(err), "aws ec2 restore-snapshot-tier --snapshot-id ")
	require.Contains(t, failure.HintOf(err), "72 hours")
	l.nothingLeft(t)
}
