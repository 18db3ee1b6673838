package runmark

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Two runs may have the same slug, and so the same label: the annotation has the whole id.
func TestMadeBy_RunsOfOneSlug_AreTwo(t *testing.T) {
	t.Parallel()
	o := &metav1.ObjectMeta{Labels: map[string]string{"team": "db"}}
	Put(o, "rst/1")
	require.Equal(t, map[string]string{"team": "db", Key: "rst-1"}, o.Labels)
	require.Equal(t, Selector("rst-1"), Selector("rst/1"))
	require.True(t, MadeBy(o, "rst/1"))
	require.False(t, MadeBy(o, "rst-1"))
	require.False(t, MadeBy(&metav1.ObjectMeta{}, ""), "no run made it")
}

func TestCheckMade_NotByThisRun_IsAConflict(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, c := range map[string]struct {
		by   cluster.RunID
		gone *metav1.Time
		want failure.Kind
		text string
	}{
		"another run":   {"r2", nil, failure.Conflict, "made by run r2"},
		"of no run":     {"", nil, failure.Conflict, "made by someone else"},
		"its own":       {"r1", nil, failure.Unknown, ""},
		"being deleted": {"r1", &now, failure.Limited, "still being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &metav1.ObjectMeta{DeletionTimestamp: c.gone}
			if c.by != "" {
				Put(o, c.by)
			}
			err := CheckMade(o, "r1", "create", "x")
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.want, failure.KindOf(err))
		})
	}
}

func TestSlug_AnyText_IsALabelsValue(t *testing.T) {
	t.Parallel()
	require.Equal(t, "rst-2026-a", Slug("_RST/2026.a-"))
	long := make([]byte, 2*maxLabel)
	for i := range long {
		long[i] = 'x'
	}
	require.Len(t, Slug(string(long)), maxLabel)
}
