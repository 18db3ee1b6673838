package ebstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

func TestSnapshot_DirtyData_SetsItsDuration(t *testing.T) {
	t.Parallel()
	w := start(t, 10000, func(r *ebstest.Rules) {
		r.SnapshotBase = 10 * time.Second
		r.SnapshotRate = disk.PageSize
		r.ByteScale = 2
	})
	v, _ := w.volume(t)
	device, err := w.Device(v)
	require.NoError(t, err)
	var durations []time.Duration
	var full []int64
	for _, pages := range []int64{100, 10} { // the second snapshot copies what changed since the first
		for n := range pages {
			_, err := device.WriteAt([]byte("x"), n*disk.PageSize)
			require.NoError(t, err)
		}
		var id string
		eventually(t, "accepted", func() bool { // after 15 s of spacing
			a := w.call(t, "CreateSnapshot", "VolumeId", string(v))
			return a.Code == ""
		})
		snapshots := w.Snapshots()
		last := snapshots[len(snapshots)-1]
		id = string(last.ID)
		eventually(t, "completed", func() bool {
			a := w.call(t, "DescribeSnapshots", "SnapshotId.1", id)
			return len(a.States) == 1 && a.States[0] == "completed"
		})
		snapshots = w.Snapshots()
		last = snapshots[len(snapshots)-1]
		require.Equal(t, 100, last.Progress)
		durations = append(durations, last.CompletedAt.Sub(last.StartedAt))
		full = append(full, last.FullBytes)
	}
	require.Equal(t, []time.Duration{210 * time.Second, 30 * time.Second}, durations)
	require.Equal(t, []int64{200 * disk.PageSize, 200 * disk.PageSize}, full)
}

func TestSnapshot_Spacing_RefusedWithin15s(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	v, i := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	require.Equal(t, "SnapshotCreationPerVolumeRateExceeded", w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	require.Equal(t, "SnapshotCreationPerVolumeRateExceeded",
		w.call(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i)).Code)
	require.Len(t, w.Snapshots(), 1, "a refused set leaves nothing")
}

func TestSnapshot_PendingOfVolume_DeletedStillCount(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) {
		r.SnapshotSpacing, r.SnapshotBase, r.PendingPerVolume = 0, time.Hour, 2
	})
	v, _ := w.volume(t)
	for range 2 {
		require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	}
	require.Empty(t, w.call(t, "DeleteSnapshot", "SnapshotId", string(w.Snapshots()[0].ID)).Code)
	require.Equal(t, "ConcurrentSnapshotLimitExceeded", w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
}

func TestSnapshot_PendingInAccount_WholeSetRefused(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.PendingInAccount = 1 })
	_, i := w.volume(t)
	a := w.call(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i))
	require.Equal(t, "PendingSnapshotLimitExceeded", a.Code)
	require.Empty(t, w.Snapshots())
}

func TestSnapshot_NewID_InvisibleForAWhile(t *testing.T) {
	t.Parallel()
	w := start(t, 50, func(r *ebstest.Rules) {
		r.Invisible = ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
	})
	v, _ := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	id := string(w.Snapshots()[0].ID)
	require.Equal(t, "InvalidSnapshot.NotFound", w.call(t, "DescribeSnapshots", "SnapshotId.1", id).Code)
	require.Equal(t, "InvalidSnapshot.NotFound", w.call(t, "CreateTags", "ResourceId.1", id, "Tag.1.Key", "k", "Tag.1.Value", "v").Code)
	require.Equal(t, "InvalidSnapshot.NotFound", w.call(t, "DeleteSnapshot", "SnapshotId", id).Code)
	require.Empty(t, w.call(t, "DescribeSnapshots", "Owner.1", "self").IDs)
	eventually(t, "visible", func() bool {
		return w.call(t, "DescribeSnapshots", "SnapshotId.1", id).Code == ""
	})
	require.Empty(t, w.call(t, "CreateTags", "ResourceId.1", id, "Tag.1.Key", "k", "Tag.1.Value", "v").Code)
	require.Equal(t, ebs.Tags{"k": "v"}, w.Snapshots()[0].Tags)
}

func TestSnapshot_OneFails_WholeSetDoes(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.SnapshotSpacing = 0 })
	v, i := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	require.Empty(t, w.call(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i)).Code)
	all := w.Snapshots()
	require.Len(t, all, 3)
	require.NoError(t, w.FailSnapshot(all[1].ID))
	for n, p := range w.Snapshots() {
		require.Equal(t, n > 0, p.State == ebs.SnapshotError, "snapshot %d is %s", n, p.State)
	}
	a := w.call(t, "CreateVolume", "AvailabilityZone", string(zone), "SnapshotId", string(all[2].ID))
	require.Equal(t, "IncorrectState", a.Code)
	require.Equal(t, "InvalidSnapshot.NotFound", ebstest.CodeOf(w.FailSnapshot("snap-1")))
}

func TestCreateSnapshots_Exclusions_ByEC2sRules(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := start(t, 1)
	v, i := w.volume(t)
	other, _ := w.volume(t)
	boot := w.first()
	spec := func(more ...string) []string {
		return append([]string{"InstanceSpecification.InstanceId", string(i)}, more...)
	}
	for name, test := range map[string]struct {
		pairs []string
		code  string
	}{
		"boot volume as data":  {spec("InstanceSpecification.ExcludeDataVolumeId.1", boot), "InvalidParameterValue"},
		"volume of another":    {spec("InstanceSpecification.ExcludeDataVolumeId.1", string(other)), "InvalidParameterValue"},
		"nothing left":         {spec("InstanceSpecification.ExcludeDataVolumeId.1", string(v), "InstanceSpecification.ExcludeBootVolume", "true"), "InvalidParameterCombination"},
		"no such instance":     {[]string{"InstanceSpecification.InstanceId", "i-0123456789abcdef0"}, "InvalidInstanceID.NotFound"},
		"malformed instance":   {[]string{"InstanceSpecification.InstanceId", "x"}, "InvalidInstanceID.Malformed"},
		"tags of another kind": {spec("TagSpecification.1.ResourceType", "volume"), "InvalidParameterValue"},
		"reserved tag":         {spec("TagSpecification.1.ResourceType", "snapshot", "TagSpecification.1.Tag.1.Key", "aws:x", "TagSpecification.1.Tag.1.Value", ""), "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.code, w.call(t, "CreateSnapshots", test.pairs...).Code, name)
		})
	}
	tags := spec("TagSpecification.1.ResourceType", "snapshot")
	for n := 1; n <= 51; n++ {
		tags = append(tags, fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n), fmt.Sprint(n), fmt.Sprintf("TagSpecification.1.Tag.%d.Value", n), "")
	}
	require.Equal(t, "TagLimitExceeded", w.call(t, "CreateSnapshots", tags...).Code)
	require.Empty(t, w.Snapshots())
	w.TerminateInstance(i)
	require.Equal(t, "IncorrectInstanceState", w.call(t, "CreateSnapshots", spec()...).Code)
}
