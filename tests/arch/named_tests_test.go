package arch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

func TestNamedTests_OfTheFindings_Exist(t *testing.T) {
	t.Parallel()
	const findings = "tests/findings.md"
	text, err := os.ReadFile(filepath.Join(root, findings))
	require.NoError(t, err)
	require.Contains(t, string(text), "\n| A merge or split", "the rows are read")
	none(t, arch.NamedTests(findings, string(text), sources(t)))
}

func TestNamedTests_Samples(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ row, want string }{
		"exists":         {"| It broke | `TestX` |", ""},
		"does not exist": {"| It broke | `TestX`, `TestY` |", "no test TestY"},
		"no test":        {"| It broke | |", "names no test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := arch.Source{Path: "pkg/x/x_test.go", Text: []byte("package x\nfunc TestX(t *testing.T) {}\n")}
			expect(t, row.want, arch.NamedTests("findings.md", "| finding | tests |\n|---|---|\n"+row.row, []arch.Source{source}))
		})
	}
}
