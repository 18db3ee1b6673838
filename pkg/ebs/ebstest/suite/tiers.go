package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// moved moves a snapshot to the archive tier, or back.
func (s Subject) moved(t *testing.T, id cluster.SnapshotID, archive bool) {
	t.Helper()
	if archive {
		s.Archive(t, id)
	} else {
		s.Unarchive(t, id)
	}
	s.eventually(t, "moved between the tiers", func() bool {
		found, err := s.Client.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
		return err == nil && len(found) == 1 && found[0].State == ebs.SnapshotCompleted && found[0].Archived == archive
	})
}

func tierThereAndBack(t *testing.T, s Subject) {
	s.needs(t, TraitTiers)
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	id := from.ID
	require.False(t, from.Archived)
	for _, archive := range []bool{true, false, true} {
		s.moved(t, id, archive)
	}
	require.NoError(t, s.Client.DeleteSnapshot(t.Context(), id), "as any other")
}

func tierArchived(t *testing.T, s Subject) {
	s.needs(t, TraitTiers, TraitArchived)
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	id, others := from.ID, []string{"222222222222"}
	require.NoError(t, s.Client.ShareSnapshot(t.Context(), id, others))
	s.moved(t, id, true)
	_, err := s.Client.CreateVolume(s.bounded(t), s.request(t, from, "archived"))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	_, err = s.Away.CopySnapshot(s.bounded(t), s.copyRequest(t, id))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Equal(t, failure.Unready, failure.KindOf(s.Client.ShareSnapshot(s.bounded(t), id, others)))
	with, err := s.Client.SharedWith(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, with, "sharing ended")
	s.moved(t, id, false)
	s.copied(t, s.Away, s.copyRequest(t, id))
}
