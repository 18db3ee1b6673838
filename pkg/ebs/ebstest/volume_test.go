package ebstest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// create makes an empty volume over the wire.
func (w *wire) create(t *testing.T, more ...string) answer {
	t.Helper()
	return w.call(t, "CreateVolume", append([]string{"AvailabilityZone", string(zone), "Size", "100"}, more...)...)
}

func TestCreateVolume_Parameters_EC2sCodes(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := start(t, 1)
	for name, test := range map[string]struct {
		pairs []string
		code  string
	}{
		"defaults":            {nil, ""},
		"gp3":                 {[]string{"VolumeType", "gp3", "Iops", "8000", "Throughput", "2000"}, ""},
		"unknown type":        {[]string{"VolumeType", "gp9"}, "InvalidParameterValue"},
		"iops on gp2":         {[]string{"VolumeType", "gp2", "Iops", "3000"}, "InvalidParameterCombination"},
		"throughput on io2":   {[]string{"VolumeType", "io2", "Iops", "3000", "Throughput", "500"}, "InvalidParameterCombination"},
		"io1 without iops":    {[]string{"VolumeType", "io1"}, "MissingParameter"},
		"iops out of range":   {[]string{"VolumeType", "gp3", "Iops", "80001"}, "InvalidParameterValue"},
		"too many per gib":    {[]string{"VolumeType", "io1", "Iops", "5001"}, "InvalidParameterCombination"},
		"too fast for iops":   {[]string{"VolumeType", "gp3", "Throughput", "751"}, "InvalidParameterCombination"},
		"throughput too high": {[]string{"VolumeType", "gp3", "Iops", "16000", "Throughput", "2001"}, "InvalidParameterValue"},
		"size too large":      {[]string{"VolumeType", "gp3", "Size", "65537"}, "InvalidParameterValue"},
		"no number":           {[]string{"Size", "ten"}, "InvalidParameterValue"},
		"unknown zone":        {[]string{"AvailabilityZone", "eu-west-1a"}, "InvalidZone.NotFound"},
		"no zone":             {[]string{"AvailabilityZone", ""}, "MissingParameter"},
		"key alone":           {[]string{"KmsKeyId", "key"}, "InvalidParameterDependency"},
		"unknown snapshot":    {[]string{"SnapshotId", "snap-0123456789abcdef0"}, "InvalidSnapshot.NotFound"},
		"malformed snapshot":  {[]string{"SnapshotId", "snap-xyz"}, "InvalidSnapshotID.Malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.code, w.create(t, test.pairs...).Code, name)
		})
	}
	a := w.create(t, "VolumeType", "gp3")
	require.EqualValues(t, 3000, a.IOPS)
	require.EqualValues(t, 125, a.MiB)
}

func TestCreateVolume_SmallerThanSnapshot_Refused(t *testing.T) {
	t.Parallel()
	w := start(t, 1000)
	v, _ := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	id := w.Snapshots()[0].ID
	eventually(t, "completed", func() bool { return w.Snapshots()[0].State == ebs.SnapshotCompleted })
	require.Equal(t, "InvalidParameterValue", w.create(t, "SnapshotId", string(id), "Size", "9").Code)
	require.Empty(t, w.create(t, "SnapshotId", string(id), "Size", "10").Code)
}

func TestCreateVolume_Token_SameDifferentAndBurned(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	first := w.create(t, "ClientToken", "a")
	require.Equal(t, first.Volume, w.create(t, "ClientToken", "a").Volume)
	require.NotEqual(t, first.Volume, w.create(t, "ClientToken", "b").Volume)
	require.Equal(t, "IdempotentParameterMismatch", w.create(t, "ClientToken", "a", "Size", "101").Code)
	require.Empty(t, w.call(t, "DeleteVolume", "VolumeId", first.Volume).Code)
	require.Equal(t, "IdempotentParameterMismatch", w.create(t, "ClientToken", "a").Code)
}

func TestCreateVolume_Quota_CheckedBeforeToken(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) {
		r.StorageGiB = map[string]int64{"gp3": 100}
		r.IOPS = map[string]int64{"io2": 5000}
	})
	require.Empty(t, w.create(t, "VolumeType", "gp3", "ClientToken", "a").Code)
	require.Equal(t, "VolumeLimitExceeded", w.create(t, "VolumeType", "gp3", "ClientToken", "a").Code)
	require.Equal(t, "VolumeIOPSLimit", w.create(t, "VolumeType", "io2", "Iops", "5001").Code)
	require.Empty(t, w.create(t, "VolumeType", "io2", "Iops", "5000").Code)
}

func TestVolume_States_FromCreatingToGone(t *testing.T) {
	t.Parallel()
	w := start(t, 100, func(r *ebstest.Rules) {
		r.Creating = ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
		r.Deleting = r.Creating
	})
	i := w.AddInstance(zone)
	a := w.create(t)
	require.Equal(t, "creating", a.Status)
	attach := []string{"VolumeId", a.Volume, "InstanceId", string(i), "Device", "/dev/sdf"}
	require.Equal(t, "IncorrectState", w.call(t, "AttachVolume", attach...).Code)
	id := cluster.VolumeID(a.Volume)
	state := func() ebs.VolumeState {
		v, _ := w.Volume(id)
		return v.State
	}
	eventually(t, "available", func() bool { return state() == ebs.VolumeAvailable })
	require.Empty(t, w.call(t, "AttachVolume", attach...).Code)
	require.Equal(t, ebs.VolumeInUse, state())
	require.Equal(t, "VolumeInUse", w.call(t, "AttachVolume", attach...).Code)
	require.Equal(t, "VolumeInUse", w.call(t, "DeleteVolume", "VolumeId", a.Volume).Code)
	require.Equal(t, "VolumeInUse", ebstest.CodeOf(w.FailVolume(id)))
	require.Empty(t, w.call(t, "DetachVolume", "VolumeId", a.Volume).Code)
	require.Equal(t, "IncorrectState", w.call(t, "DetachVolume", "VolumeId", a.Volume).Code)
	require.NoError(t, w.FailVolume(id))
	require.Equal(t, ebs.VolumeError, state())
	require.Empty(t, w.call(t, "DeleteVolume", "VolumeId", a.Volume).Code)
	require.Equal(t, ebs.VolumeDeleting, state())
	eventually(t, "gone", func() bool {
		return w.call(t, "DescribeVolumes", "VolumeId.1", a.Volume).Code == "InvalidVolume.NotFound"
	})
}

func TestAttach_OtherZone_Refused(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	v, err := w.CreateVolumeDirect("us-west-2b", cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, "InvalidVolume.ZoneMismatch", ebstest.CodeOf(w.Attach(v, w.AddInstance(zone))))
}

func TestTerminateInstance_Volumes_DataStaysBootGoes(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	v, i := w.volume(t)
	device, err := w.Device(v)
	require.NoError(t, err)
	require.Len(t, w.Volumes(), 2)
	for range 2 {
		require.Empty(t, w.call(t, "TerminateInstances", "InstanceId.1", string(i)).Code)
	}
	require.Len(t, w.Volumes(), 1)
	left, ok := w.Volume(v)
	require.True(t, ok)
	require.Equal(t, ebs.VolumeAvailable, left.State)
	_, err = device.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, disk.ErrDetached)
	require.Equal(t, "IncorrectState", ebstest.CodeOf(w.Attach(v, i)))
}

func TestDescribeVolumes_Filters_EachField(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := start(t, 1)
	v, i := w.volume(t)
	free, err := w.CreateVolumeDirect("us-west-2b", cluster.VolumeSpec{Type: "io2", SizeGiB: 7, IOPS: 100}, ebs.Tags{"k*": "a*b"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		filter, value string
		want          []string
	}{
		"attachment":     {"attachment.instance-id", string(i), []string{w.first(), string(v)}},
		"status":         {"status", "available", []string{string(free)}},
		"zone":           {"availability-zone", "us-west-2b", []string{string(free)}},
		"type":           {"volume-type", "io*", []string{string(free)}},
		"size":           {"size", "7", []string{string(free)}},
		"volume":         {"volume-id", string(v), []string{string(v)}},
		"tag":            {"tag:k*", `a\*b`, []string{string(free)}},
		"tag, wildcard":  {"tag:k*", "a??", []string{string(free)}},
		"tag, other":     {"tag:k*", `a\?b`, nil},
		"tag key":        {"tag-key", `k\*`, []string{string(free)}},
		"missing volume": {"volume-id", "vol-0123456789abcdef0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.call(t, "DescribeVolumes", "Filter.1.Name", test.filter, "Filter.1.Value.1", test.value)
			require.Empty(t, a.Code, name)
			require.Equal(t, test.want, a.Volumes, name)
		})
	}
	require.Equal(t, "InvalidVolume.NotFound",
		w.call(t, "DescribeVolumes", "VolumeId.1", string(v), "VolumeId.2", "vol-0123456789abcdef0").Code)
}
