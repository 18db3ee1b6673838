package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/runner"
)

// A process that resumes a restore from an archive after its snapshots were deleted cannot ask EC2 for their size.
func TestReport_SnapshotsAreDeleted_HasTheSizeOfTheArchive(t *testing.T) {
	t.Parallel()
	volume := func(blocks int64) format.Volume { return format.Volume{Counts: format.Counts{Saved: blocks}} }
	r := newRun(Deps{Archive: &fromarchive.Source{Archive: &format.Archive{Stores: []format.Store{
		{ID: 1, Volumes: []format.Volume{volume(3), volume(5)}}, {ID: 4, Volumes: []format.Volume{volume(4)}},
	}}}}, Options{}, byRun)
	got := r.report(runner.Outcome{})
	require.EqualValues(t, 12<<19, got.DataBytes)
	require.EqualValues(t, 5<<19, got.LargestBytes)
	require.Zero(t, newRun(Deps{}, Options{}, byRun).report(runner.Outcome{}).DataBytes, "of a backup it is unknown")
}
