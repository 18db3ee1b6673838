package arch_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/mutants"
)

// A guard that moved takes its row along: one that no longer applies guards nothing.
func TestMutants_EveryRowApplies(t *testing.T) { //nolint:tparallel // no two rows have the same name
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants.All() {
		t.Run(m.Name, func(t *testing.T) {
			_, err := m.Apply(root)
			assert.NoError(t, err, "take the row along, in tests/mutants/table_*.go; make mutants runs it")
			assert.False(t, names[m.Name], "two rows have this name")
			names[m.Name] = true
			assert.NotEmpty(t, m.Promise)
			assert.NotEmpty(t, m.Tests)
			for _, test := range strings.Split(strings.Trim(m.Tests, "^()$"), "|") {
				assert.Truef(t, there(t, m.Package, test), "%s has no test %s", m.Package, test)
			}
		})
	}
}

// A package without a row has promises that no test proves, or none: then the list gives the reason.
func TestMutants_EveryPackageHasARow(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	for _, m := range mutants.All() {
		broken[path.Dir(m.File)] = true
	}
	packages := shippedPackages(t)
	for pkg := range packages {
		why, listed := mutants.WithoutRows()[pkg]
		assert.Falsef(t, broken[pkg] && listed, "%s has a row: take it from the list of those without", pkg)
		assert.Truef(t, broken[pkg] || why != "", "%s has no row in tests/mutants: add one for each promise of its doc", pkg)
	}
	for pkg := range mutants.WithoutRows() {
		assert.Truef(t, packages[pkg], "there is no package %s", pkg)
	}
}

// shippedPackages are the folders of pkg with source that is not what tests are made of.
func shippedPackages(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), "pkg", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "pkg/standin" || file == "pkg/testbed" || strings.HasSuffix(file, "test") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			found[path.Dir(file)] = true
		}
		return nil
	}))
	require.Greater(t, len(found), 30)
	return found
}

// there reports whether a package has the test, whose name may be followed by that of one of its parts.
func there(t *testing.T, pkg, test string) bool {
	t.Helper()
	test, _, _ = strings.Cut(test, "$/")
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}
