package backup_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// Only the tags that the user named are taken over from the volumes, or each backup and restore would add some.
func TestRun_KeepTags_SnapshotsHaveThoseAndNoOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, v := range r.bed.EC2.Volumes() {
		form := url.Values{
			"Action": {"CreateTags"}, "ResourceId.1": {string(v.ID)},
			"Tag.1.Key": {"team"}, "Tag.1.Value": {"db"},
			"Tag.2.Key": {"secret"}, "Tag.2.Value": {"x"},
			"Tag.3.Key": {"serial"}, "Tag.3.Value": {string(rune('a' + i))},
		}
		answer, err := http.PostForm(r.bed.AWS(), form) //nolint:noctx // a stand-in on loopback
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
	o := r.options()
	o.KeepTags = []string{"team", "serial", "absent"}
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	snapshots := r.bed.EC2.Snapshots()
	require.Len(t, snapshots, 6)
	for _, s := range snapshots {
		require.Equal(t, "db", s.Tags["team"])
		require.NotContains(t, s.Tags, "secret")
		require.NotContains(t, s.Tags, "serial", "it differs between the volumes of one call")
		require.Equal(t, string(o.Run), s.Tags[ebs.TagRun])
	}
}
