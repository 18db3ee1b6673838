package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/mutants"
)

// A guard that moved takes its row along: one that does not apply any more guards nothing.
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

// there says whether a package has the test, whose name may be followed by that of one of its parts.
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
