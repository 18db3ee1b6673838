package phasetest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/phase/phasetest"
)

// root is the module's folder, seen from this package's.
const root = "../../.."

func TestTable_MissingSource_NamesTheStep(t *testing.T) {
	t.Parallel()
	here := func(context.Context, *phase.Scope) error { return nil }
	_, err := phasetest.Table(root, "docs", []phase.Step{{Phase: "p", Name: "mine", Deadline: time.Second, Do: here}})
	require.ErrorContains(t, err, "step mine: ")
	require.ErrorContains(t, err, "is not found in")
}

func TestCheckTable_Update_WritesOnlyTheSection(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "page.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n"), 0o600))
	require.ErrorContains(t, phasetest.CheckTable(folder, "page.md", "x", nil, false), `it has "old"`)
	require.NoError(t, phasetest.CheckTable(folder, "page.md", "x", nil, true))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(got), "before\n<!-- x: begin -->\n| phase | step |")
	require.Contains(t, string(got), "\n<!-- x: end -->\nafter\n")
	require.NoError(t, phasetest.CheckTable(folder, "page.md", "x", nil, false))
	require.ErrorContains(t, phasetest.CheckTable(folder, "page.md", "y", nil, true), "no section")
}
