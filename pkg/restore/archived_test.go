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
	require.Contains(t, failure.HintOf(err), "aws ec2 restore-snapshot-tier --region ")
	require.Contains(t, failure.HintOf(err), "72 hours")
	l.nothingLeft(t)
}

// A snapshot on an Outpost, which a document of br or a changed manifest may name, is refused before anything is made.
func TestRestore_SnapshotOnAnOutpost_IsRefusedInPreflight(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0"
	l := newLab(t)
	snapshot := l.bed.EC2.Snapshots()[0].ID
	require.NoError(t, l.bed.EC2.PutSnapshotOnOutpost(snapshot, arn))
	_, err := l.restore(t.Context(), t, nil, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1 of 6 are kept on an Outpost: "+string(snapshot)+" ("+arn+")")
	require.Contains(t, failure.HintOf(err), "restore another backup")
	l.nothingLeft(t)
}
