package gc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// A backup is broken for a list as it is for gc, and nothing is deleted on the way.
func TestCheck_SnapshotGone_AgreesWithCollect(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	gone, err := Check(t.Context(), p.deps)
	require.NoError(t, err)
	require.Empty(t, gone)

	delete(p.ec2.snapshots, "snap-1")
	gone, err = Check(t.Context(), p.deps)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.Equal(t, []Missing{{Backup: "b", Snapshots: []cluster.SnapshotID{"snap-1"}}}, gone)
	report, _ := Collect(t.Context(), p.deps, Options{DryRun: true})
	require.Equal(t, report.Missing, gone)
	require.Equal(t, []cluster.SnapshotID{"snap-2"}, p.ec2.ids())
}
