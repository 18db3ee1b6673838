package restore

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/phase/phasetest"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
)

var update = flag.Bool("update", false, "write the tables of steps in docs/ARCHITECTURE.md")

// The documented steps are those of a restore with every option that adds one, of a resolve, and of br's two halves.
func TestDocs_Steps(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{}, Options{FastRestore: true, After: cluster.VolumeSpec{Type: "gp3"}}, byRun)
	ofRestore := r.restoreSteps()
	do := map[string]phase.Step{}
	for _, s := range slices.Concat(ofRestore, r.resolver.Steps(phaseData, resolve.StepOptions{})) {
		do[s.Name] = s
	}
	// What the resolver does is wrapped where it may be found done: the code is the resolver's.
	unwrapped := func(steps []phase.Step) []phase.Step {
		wrapped := 0
		for i, s := range steps {
			if s.Phase == phaseData && do[s.Name].Do != nil && s.Name != "load" && s.Name != "lock" {
				steps[i].Do = do[s.Name].Do
				wrapped++
			}
		}
		require.NotZero(t, wrapped)
		return steps
	}
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of a restore", unwrapped(ofRestore), *update))
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of a resolve", unwrapped(r.resolveSteps()), *update))
	fromArchive := newRun(Deps{Archive: &fromarchive.Source{}}, Options{}, byRun)
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of an archive's snapshots",
		slices.Concat(fromArchive.snapshotSteps(), fromArchive.deleteSnapshotsSteps()), *update))
	toVolumes := newRun(Deps{Archive: &fromarchive.Source{}, Fill: &filled.Way{}}, Options{}, byRun)
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps straight to volumes", toVolumes.fillSteps(), *update))
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of the volumes alone", r.prepareSteps(), *update))
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of the data alone", unwrapped(r.dataSteps()), *update))
}
