package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// key is of no account.
const key = "arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000001"

func createEncrypted(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	req := s.request(t, s.completed(t, i, volumes)[0], "key")
	req.Encrypted, req.KMSKey = true, key
	v, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	require.True(t, v.Encrypted)
	require.Equal(t, key, v.KMSKey)
}

func createRated(t *testing.T, s Subject) {
	s.needs(t, TraitRate)
	i, volumes := s.Instance(t, 1)
	req := s.request(t, s.completed(t, i, volumes)[0], "rate")
	req.InitializationMiB = 100
	v, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	s.eventually(t, "filled", func() bool {
		found, err := s.Client.Initializations(t.Context(), []cluster.VolumeID{v.ID})
		return err == nil && len(found) == 1 && found[0].Rated && found[0].Done()
	})
}

func createRatedWrong(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	req := s.request(t, s.completed(t, i, volumes)[0], "rate")
	req.InitializationMiB = ebs.MaxInitializationRate + 1
	_, err := s.Client.CreateVolume(t.Context(), req)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	found, err := s.Client.FindVolumes(t.Context(), s.tags(t))
	require.NoError(t, err)
	require.Empty(t, found)
}

func modify(t *testing.T, s Subject) {
	_, volumes := s.Instance(t, 1)
	want := cluster.VolumeSpec{Type: "gp3", SizeGiB: 20, IOPS: 4000, ThroughputMiB: 500}
	m, err := s.Client.ModifyVolume(t.Context(), volumes[0], want)
	require.NoError(t, err)
	require.Equal(t, want, m.To)
	require.EqualValues(t, 10, m.From.SizeGiB)
	s.eventually(t, "modified", func() bool {
		found, err := s.Client.Modifications(t.Context(), volumes)
		return err == nil && len(found) == 1 && found[0].Accepted()
	})
	found, err := s.Client.DescribeVolumes(t.Context(), volumes)
	require.NoError(t, err)
	require.Equal(t, want, found[0].Spec)
	require.Equal(t, ebs.VolumeInUse, found[0].State)
	_, err = s.Client.ModifyVolume(t.Context(), volumes[0], want)
	require.NoError(t, err, "it has these parameters already")
}

func modifySmaller(t *testing.T, s Subject) {
	_, volumes := s.Instance(t, 1)
	_, err := s.Client.ModifyVolume(t.Context(), volumes[0], cluster.VolumeSpec{Type: "gp3", SizeGiB: 5})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	found, err := s.Client.DescribeVolumes(t.Context(), volumes)
	require.NoError(t, err)
	require.EqualValues(t, 10, found[0].Spec.SizeGiB)
}

func fastRestore(t *testing.T, s Subject) {
	s.needs(t, TraitFastRestore)
	i, volumes := s.Instance(t, 1)
	ids := []cluster.SnapshotID{s.completed(t, i, volumes)[0].ID}
	zones := []cluster.Zone{s.Zone}
	enabled, err := s.Client.EnableFastRestore(s.bounded(t), ids, zones)
	require.NoError(t, err)
	require.Len(t, enabled, 1)
	state := func() ebs.FastRestoreState {
		found, err := s.Client.FastRestores(t.Context(), ids)
		require.NoError(t, err)
		if len(found) == 0 {
			return ebs.FastRestoreDisabled
		}
		require.Equal(t, ids[0], found[0].Snapshot)
		require.Equal(t, s.Zone, found[0].Zone)
		return found[0].State
	}
	s.eventually(t, "enabled", func() bool { return state() == ebs.FastRestoreEnabled })
	for range 2 {
		require.NoError(t, s.Client.DisableFastRestore(t.Context(), ids, zones))
	}
	s.eventually(t, "disabled", func() bool { return state() == ebs.FastRestoreDisabled })
}

func initializations(t *testing.T, s Subject) {
	s.needs(t, TraitStatus)
	i, volumes := s.Instance(t, 1)
	v := s.restored(t, s.completed(t, i, volumes)[0], "status")
	ids := []cluster.VolumeID{v.ID, volumes[0], "vol-0123456789abcdef0"}
	s.eventually(t, "reported", func() bool {
		found, err := s.Client.Initializations(s.bounded(t), ids)
		require.NoError(t, err)
		return len(found) == 2 && holds(found, func(i ebs.Initialization) bool { return i.Volume == v.ID && i.Done() })
	})
}
