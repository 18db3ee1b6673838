package ebstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
)

// The published times of PingCAP's documentation, "EBS snapshot backup and restore performance".
func TestRealRules_PublishedBackups_Within20Percent(t *testing.T) {
	t.Parallel()
	const tolerance = 0.20
	rules := ebstest.RealRules()
	for _, row := range []struct{ gb, volumeGiB, minutes int64 }{
		{50, 500, 20}, {100, 500, 50}, {200, 500, 100}, {500, 1024, 150}, {1024, 3500, 350},
	} {
		t.Run(fmt.Sprintf("%d GB on %d GiB", row.gb, row.volumeGiB), func(t *testing.T) {
			t.Parallel()
			model := rules.SnapshotDuration(row.gb*1e9, row.volumeGiB).Minutes()
			off := model/float64(row.minutes) - 1
			t.Logf("published %3d min, model %5.1f min, %+.0f %%", row.minutes, model, 100*off)
			require.InDelta(t, 0, off, tolerance)
		})
	}
}

func TestBucket_Neighbour_TakesItsShare(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) {
		r.Buckets["CreateVolume"] = ebstest.Bucket{Size: 2, Refill: 100}
		r.Neighbours = map[string]float64{"CreateVolume": 100}
	})
	create := func() string {
		return w.call(t, "CreateVolume", "AvailabilityZone", string(zone), "Size", "1").Code
	}
	require.Empty(t, create())
	require.Empty(t, create())
	for range 20 {
		require.Equal(t, "RequestLimitExceeded", create(), "the neighbour takes all that is refilled")
	}
}

func TestCreateVolume_Vanishes_TokenStaysBurned(t *testing.T) {
	t.Parallel()
	w := start(t, 3600, func(r *ebstest.Rules) {
		r.Creating = ebstest.Span{Least: 5 * time.Second, Most: 5 * time.Second}
		r.TokenMemory = time.Hour
	})
	create := func() answer {
		return w.call(t, "CreateVolume", "AvailabilityZone", string(zone), "Size", "1", "ClientToken", "one")
	}
	w.VanishNext(1)
	a := create()
	require.Empty(t, a.Code)
	eventually(t, "gone without having been available", func() bool {
		v, ok := w.Volume(cluster.VolumeID(a.Volume))
		require.True(t, !ok || v.State == ebs.VolumeCreating)
		return !ok
	})
	require.Equal(t, "InvalidVolume.NotFound", w.call(t, "DescribeVolumes", "VolumeId.1", a.Volume).Code)
	require.Equal(t, "IdempotentParameterMismatch", create().Code)
	eventually(t, "forgotten", func() bool { return create().Code == "" })
}

func TestCreateVolume_DryRunWithAbsurdIOPS_ShowsTheLimit(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.MaxIOPS = map[string]int64{"gp3": 16000} })
	for kind, most := range map[string]int{"gp3": 16000, "io1": 64000, "io2": 256000} {
		t.Run(kind, func(t *testing.T) {
			a := w.call(t, "CreateVolume", "AvailabilityZone", string(zone), "Size", "100", "VolumeType", kind,
				"Iops", "2147483647", "DryRun", "true")
			require.Equal(t, "InvalidParameterValue", a.Code)
			require.Equal(t, fmt.Sprintf("Volume iops of 2147483647 is too high; maximum is %d.", most), a.Message)
		})
	}
}

func TestAllowOnly_OtherActions_Denied(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	v, _ := w.volume(t)
	tagged := []string{"VolumeId", string(v), "TagSpecification.1.ResourceType", "snapshot",
		"TagSpecification.1.Tag.1.Key", "k", "TagSpecification.1.Tag.1.Value", "v"}
	w.AllowOnly("ec2:Describe*", "ec2:CreateSnapshot")
	require.Empty(t, w.call(t, "DescribeVolumes").Code)
	require.Equal(t, "UnauthorizedOperation", w.call(t, "DeleteVolume", "VolumeId", string(v)).Code)
	a := w.call(t, "CreateSnapshot", tagged...)
	require.Equal(t, "UnauthorizedOperation", a.Code)
	require.Contains(t, a.Message, "ec2:CreateTags")
	w.AllowOnly("ec2:CreateSnapshot", "ec2:CreateTags")
	require.Empty(t, w.call(t, "CreateSnapshot", tagged...).Code)
	require.Empty(t, w.call(t, "GetCallerIdentity").Code)
}

func TestAllowStatements_Conditions_HoldOfEachResource(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	ours, err := w.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, ebs.Tags{"run": "r"})
	require.NoError(t, err)
	other, _ := w.volume(t)
	made := []string{"TagSpecification.1.ResourceType", "snapshot", "TagSpecification.1.Tag.1.Key", "k", "TagSpecification.1.Tag.1.Value", "v"}
	tag := func(ids ...cluster.VolumeID) string {
		args := []string{"Tag.1.Key", "k", "Tag.1.Value", "v"}
		for i, id := range ids {
			args = append(args, fmt.Sprintf("ResourceId.%d", i+1), string(id))
		}
		return w.call(t, "CreateTags", args...).Code
	}
	const denied = "UnauthorizedOperation"
	w.AllowStatements(ebstest.Statement{
		Action: []string{"ec2:CreateTags"}, Condition: map[string]map[string]any{"Null": {"aws:ResourceTag/run": "false"}},
	}, ebstest.Statement{Action: []string{"ec2:CreateSnapshot"}})
	require.Empty(t, tag(ours))
	require.Equal(t, denied, tag(other))
	require.Equal(t, denied, tag(ours, other))
	require.Equal(t, denied, w.call(t, "CreateSnapshot", append(made, "VolumeId", string(ours))...).Code, "what is made has no tags yet")
	for action, want := range map[string]string{"CreateSnapshot": "", "CopySnapshot": denied} {
		w.AllowStatements(ebstest.Statement{
			Action: []string{"ec2:CreateTags"}, Condition: map[string]map[string]any{"StringEquals": {"ec2:CreateAction": []any{"other", action}}},
		}, ebstest.Statement{Action: []string{"ec2:CreateSnapshot"}})
		require.Equal(t, want, w.call(t, "CreateSnapshot", append(made, "VolumeId", string(ours))...).Code)
		require.Equal(t, denied, tag(ours), "it makes nothing")
	}
	w.AllowStatements(ebstest.Statement{Action: []string{"*"}, Condition: map[string]map[string]any{"StringLike": {"aws:ResourceTag/run": "*"}}})
	require.Equal(t, denied, tag(ours), "an operator that the stand-in does not know")
}

func TestSnapshots_InRegion_Limited(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.SnapshotsInRegion = 3 })
	w.AddForeignSnapshots(3, 0)
	v, _ := w.volume(t)
	require.Equal(t, "SnapshotLimitExceeded", w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
}

func TestSnapshot_ColdVolume_OnePendingAtATime(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.SnapshotSpacing, r.SnapshotBase = 0, time.Hour })
	v, err := w.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "st1", SizeGiB: 125}, nil)
	require.NoError(t, err)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	require.Equal(t, "ConcurrentSnapshotLimitExceeded", w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
}

func TestSnapshot_ForcedAndFrozen_AsSet(t *testing.T) {
	t.Parallel()
	w := start(t, 1000, func(r *ebstest.Rules) { r.SnapshotBase, r.SnapshotSpacing = 10*time.Minute, 0 })
	v, _ := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	id := w.Snapshots()[0].ID
	require.NoError(t, w.ForceSnapshotState(id, ebs.SnapshotRecovering))
	require.Equal(t, []string{"recovering"}, w.call(t, "DescribeSnapshots", "SnapshotId.1", string(id)).States)
	require.NoError(t, w.ForceSnapshotState(id, ""))
	require.NoError(t, w.FreezeSnapshot(id))
	frozen := w.Snapshots()[0].Progress
	require.Less(t, frozen, 100)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	eventually(t, "the second is done", func() bool { return w.Snapshots()[1].State == ebs.SnapshotCompleted })
	require.Equal(t, frozen, w.Snapshots()[0].Progress)
	require.Equal(t, ebs.SnapshotPending, w.Snapshots()[0].State)
}
