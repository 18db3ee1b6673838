package restore_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/restore"
)

func TestRun_KeepTags_VolumesHaveThoseOfTheirSnapshotsAndNoOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, s := range l.bed.EC2.Snapshots() {
		form := url.Values{
			"Action": {"CreateTags"}, "ResourceId.1": {string(s.ID)},
			"Tag.1.Key": {"serial"}, "Tag.1.Value": {string(s.ID)},
			"Tag.2.Key": {"secret"}, "Tag.2.Value": {"x"},
		}
		answer, err := http.PostForm(l.bed.AWS(), form) //nolint:noctx // a stand-in on loopback
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
	_, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.KeepTags = []string{"serial"} })
	require.NoError(t, err)
	volumes := l.volumes()
	require.Len(t, volumes, 6)
	for _, v := range volumes {
		require.Equal(t, v.Tags[ebs.TagSnapshot], v.Tags["serial"])
		require.NotContains(t, v.Tags, "secret")
	}
}
