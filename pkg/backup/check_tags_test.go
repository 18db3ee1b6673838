package backup_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Another tool of the account takes a tag off a snapshot that is being made: gc would never find it.
func TestRun_SnapshotLosesItsTags_PutBackOrNamed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		refused bool
		message string
	}{
		"put back": {false, "they were restored"},
		"named":    {true, "they cannot be restored (allow ec2:CreateTags"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if row.refused {
				r.fault(t, fault.Rule{Point: "ec2.CreateTags", Code: "UnauthorizedOperation", Times: -1})
			}
			var once sync.Once
			lost := ""
			r.ebs.describe = func() {
				for _, s := range r.bed.EC2.Snapshots() {
					once.Do(func() {
						lost = string(s.ID)
						require.NoError(t, r.bed.EC2.Untag(lost, ebs.TagRun))
					})
				}
			}
			o := r.options()
			_, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			r.requireSealed(t, o)
			require.NotEmpty(t, lost)
			texts := strings.Join(r.events.texts(), "\n")
			require.Contains(t, texts, "snapshot "+lost)
			require.Contains(t, texts, row.message)
			for _, s := range r.bed.EC2.Snapshots() {
				require.Equal(t, row.refused && string(s.ID) == lost, s.Tags[ebs.TagRun] == "", s.ID)
			}
		})
	}
}

// Another process of the run has taken the snapshots over meanwhile: their epoch is not lost, and this process does not make them
// its own again, which its undo would delete.
func TestRun_SnapshotsOfALaterProcess_KeepTheirEpoch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var once sync.Once
	r.ebs.describe = func() {
		once.Do(func() {
			for _, s := range r.bed.EC2.Snapshots() {
				require.NoError(t, r.ebs.PutTags(t.Context(), []string{string(s.ID)}, ebs.Tags{ebs.TagEpoch: "2"}))
			}
		})
	}
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	require.NotContains(t, strings.Join(r.events.texts(), "\n"), "they were restored")
	for _, s := range r.bed.EC2.Snapshots() {
		require.EqualValues(t, 2, s.Tags.Epoch(), s.ID)
	}
}
