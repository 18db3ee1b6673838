package suite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func attachments(t *testing.T, s Subject) {
	first, volumes := s.Instance(t, 2)
	second, others := s.Instance(t, 1)
	found, err := s.Client.Attachments(t.Context(), []cluster.InstanceID{first, second})
	require.NoError(t, err)
	require.Len(t, found, 2)
	for id, want := range map[cluster.InstanceID][]cluster.VolumeID{first: volumes, second: others} {
		var data []cluster.VolumeID
		for _, a := range found[id] {
			require.Equal(t, "attached", a.State)
			if !a.Boot {
				data = append(data, a.Volume)
			}
		}
		require.ElementsMatch(t, want, data)
	}
}

func attachmentsNowhere(t *testing.T, s Subject) {
	i, _ := s.Instance(t, 1)
	_, err := s.Client.Attachments(t.Context(), []cluster.InstanceID{i, "i-0123456789abcdef0"})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func cutTags(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	tags := s.tags(t)
	for n := len(tags); n < 51; n++ {
		tags[fmt.Sprintf("tag-%d", n)] = "one too many"
	}
	_, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: tags})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	found, err := s.Client.FindSnapshots(t.Context(), s.tags(t))
	require.NoError(t, err)
	require.Empty(t, found)
}

// describeMany asks for more ids than one call takes; those that exist are in different calls.
func describeMany(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 3)
	made := s.completed(t, i, volumes)
	ids := append([]cluster.VolumeID{}, volumes...)
	var snapshots []cluster.SnapshotID
	for _, p := range made {
		snapshots = append(snapshots, p.ID)
	}
	for n := range 450 {
		ids = append(ids, cluster.VolumeID(fmt.Sprintf("vol-%017x", n+1<<40)))
		snapshots = append(snapshots, cluster.SnapshotID(fmt.Sprintf("snap-%017x", n+1<<40)))
	}
	found, err := s.Client.DescribeVolumes(t.Context(), ids)
	require.NoError(t, err)
	var got []cluster.VolumeID
	for _, v := range found {
		got = append(got, v.ID)
	}
	require.ElementsMatch(t, volumes, got)
	known, err := s.Client.DescribeSnapshots(t.Context(), snapshots)
	require.NoError(t, err)
	require.Len(t, known, len(made))
}

func inventory(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	v := s.restored(t, from, "inventory")
	snapshots, err := s.Client.AllSnapshots(t.Context())
	require.NoError(t, err)
	require.True(t, holds(snapshots, func(p ebs.Snapshot) bool { return p.ID == from.ID }))
	all, err := s.Client.AllVolumes(t.Context())
	require.NoError(t, err)
	require.True(t, holds(all, func(other ebs.Volume) bool { return other.ID == v.ID }))
	require.False(t, holds(all, func(other ebs.Volume) bool { return other.ID == volumes[0] }), "it carries no tag of ours")
}

func holds[T any](all []T, is func(T) bool) bool {
	for _, one := range all {
		if is(one) {
			return true
		}
	}
	return false
}

func usage(t *testing.T, s Subject) {
	before, err := s.Client.Usage(t.Context())
	require.NoError(t, err)
	s.Instance(t, 3)
	after, err := s.Client.Usage(t.Context())
	require.NoError(t, err)
	// Others may have made volumes meanwhile.
	require.GreaterOrEqual(t, after.StorageGiB["gp3"]-before.StorageGiB["gp3"], int64(30))
}

func quotas(t *testing.T, s Subject) {
	s.needs(t, TraitQuotas)
	q, err := s.Client.Quotas(s.bounded(t))
	require.NoError(t, err)
	require.Positive(t, q.PendingSnapshots)
	require.Positive(t, q.Snapshots)
	require.Positive(t, q.FastRestores)
	require.GreaterOrEqual(t, q.StorageGiB["gp3"], int64(1024), "quotas are in TiB")
	require.Positive(t, q.IOPS["io2"])
}

func maxIOPS(t *testing.T, s Subject) {
	s.needs(t, TraitLimits)
	for _, kind := range []string{"gp3", "io2"} {
		most, err := s.Client.MaxIOPS(s.bounded(t), kind, s.Zone)
		require.NoError(t, err)
		require.GreaterOrEqual(t, most, int64(16000), kind)
	}
}

func locks(t *testing.T, s Subject) {
	s.needs(t, TraitLocks)
	i, volumes := s.Instance(t, 1)
	made := s.completed(t, i, volumes)
	found, err := s.Client.SnapshotLocks(s.bounded(t), []cluster.SnapshotID{made[0].ID})
	require.NoError(t, err)
	require.Empty(t, found)
}
