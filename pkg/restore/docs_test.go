package restore

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/phase/phasetest"
)

var update = flag.Bool("update", false, "write the tables of steps in docs/ARCHITECTURE.md")

// The documented steps are those of a restore with every option that adds one, and of a resolve.
func TestDocs_Steps(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{}, Options{FastRestore: true, After: cluster.VolumeSpec{Type: "gp3"}})
	ofRestore, ofResolve := r.restoreSteps(), r.resolveSteps()
	do := map[string]phase.Step{}
	for _, s := range ofRestore {
		do[s.Name] = s
	}
	// What both share is wrapped in a resolve, which may find it done: the code is the restore's.
	wrapped := 0
	for i, s := range ofResolve {
		if s.Phase == phaseData && do[s.Name].Do != nil && s.Name != "load" && s.Name != "lock" {
			ofResolve[i].Do = do[s.Name].Do
			wrapped++
		}
	}
	require.NotZero(t, wrapped)
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of a restore", ofRestore, *update))
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of a resolve", ofResolve, *update))
}
