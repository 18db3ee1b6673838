package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func putTags(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	made, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: s.tags(t)})
	require.NoError(t, err)
	id := made[0].ID
	for range 2 { // it may be called again
		require.NoError(t, s.Client.PutTags(s.bounded(t), []string{string(id)}, ebs.Tags{"more": "x", ebs.TagCluster: "ns/other"}))
	}
	want := s.tags(t)
	want["more"], want[ebs.TagCluster] = "x", "ns/other"
	s.eventually(t, "the tags are shown", func() bool {
		found, err := s.Client.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
		return err == nil && len(found) == 1 && len(want.Missing(found[0].Tags)) == 0 && len(found[0].Tags) == len(want)
	})
}

func putTagsNowhere(t *testing.T, s Subject) {
	err := s.Client.PutTags(s.bounded(t), []string{"snap-0123456789abcdef0"}, ebs.Tags{"k": "v"})
	require.Contains(t, []failure.Kind{failure.NotFound, failure.Usage}, failure.KindOf(err), "%v", err)
	require.Equal(t, failure.Usage, failure.KindOf(s.Client.PutTags(s.bounded(t), []string{"snap-0123456789abcdef0"}, nil)))
}
