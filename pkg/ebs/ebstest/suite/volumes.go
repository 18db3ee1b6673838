package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func (s Subject) request(t *testing.T, from ebs.Snapshot, token string) ebs.VolumeRequest {
	t.Helper()
	return ebs.VolumeRequest{
		Token: token, Snapshot: from.ID, Zone: s.Zone, Tags: s.tags(t),
		Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 20, IOPS: 4000, ThroughputMiB: 500},
	}
}

// restored makes a volume and waits until it is available.
func (s Subject) restored(t *testing.T, from ebs.Snapshot, token string) ebs.Volume {
	t.Helper()
	v, err := s.Client.CreateVolume(t.Context(), s.request(t, from, token))
	require.NoError(t, err)
	s.eventually(t, "volume available", func() bool {
		found, err := s.Client.DescribeVolumes(t.Context(), []cluster.VolumeID{v.ID})
		if err != nil || len(found) != 1 || found[0].State != ebs.VolumeAvailable {
			return false
		}
		v = found[0]
		return true
	})
	return v
}

func createVolume(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	v := s.restored(t, from, "token")
	require.Equal(t, cluster.VolumeSpec{Type: "gp3", SizeGiB: 20, IOPS: 4000, ThroughputMiB: 500}, v.Spec)
	require.Equal(t, from.ID, v.Snapshot)
	require.Equal(t, s.Zone, v.Zone)
	require.Empty(t, v.Instance)
	require.Equal(t, s.tags(t), v.Tags)
	found, err := s.Client.FindVolumes(t.Context(), s.tags(t))
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func createVolumeTwice(t *testing.T, s Subject) {
	s.needs(t, TraitClientToken)
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	req := s.request(t, from, "token")
	first, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	second, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first.ID, second.ID)
	req.Token = "another"
	third, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, third.ID)
}

func createVolumeMismatch(t *testing.T, s Subject) {
	s.needs(t, TraitClientToken)
	i, volumes := s.Instance(t, 1)
	req := s.request(t, s.completed(t, i, volumes)[0], "token")
	_, err := s.Client.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	req.Spec.SizeGiB++
	_, err = s.Client.CreateVolume(t.Context(), req)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

func createVolumeNowhere(t *testing.T, s Subject) {
	_, err := s.Client.CreateVolume(t.Context(), s.request(t, ebs.Snapshot{ID: "snap-0123456789abcdef0"}, "token"))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func deleteAttached(t *testing.T, s Subject) {
	_, volumes := s.Instance(t, 1)
	err := s.Client.DeleteVolume(t.Context(), volumes[0])
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	found, err := s.Client.DescribeVolumes(t.Context(), volumes)
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func probeAllowed(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	require.NoError(t, s.Client.Probe(t.Context(), ebs.ActionCreateSnapshots, string(i), s.Zone))
	require.NoError(t, s.Client.Probe(t.Context(), ebs.ActionDeleteVolume, string(volumes[0]), s.Zone))
	require.NoError(t, s.Client.Probe(t.Context(), ebs.ActionCreateVolume, "", s.Zone))
	pending, err := s.Client.PendingSnapshots(t.Context())
	require.NoError(t, err)
	require.Zero(t, pending)
}

func zonesListed(t *testing.T, s Subject) {
	zones, err := s.Client.Zones(t.Context())
	require.NoError(t, err)
	require.Contains(t, zones, s.Zone)
	require.NotEmpty(t, s.Client.Region())
}
