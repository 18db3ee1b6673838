package backup

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase/phasetest"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/tikv"
)

var update = flag.Bool("update", false, "write the table of steps in docs/ARCHITECTURE.md")

// The documented steps are those of a backup with every option that adds one.
func TestDocs_Steps(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{EarlyApply: (*tikv.Client)(nil)}, Options{ConsistentNow: true, OnImport: preflight.WaitOnImport})
	require.NoError(t, phasetest.CheckTable("../..", "docs/ARCHITECTURE.md", "steps of a backup", r.steps(), *update))
}
