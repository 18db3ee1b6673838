package arch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

const catalogue = "tests/failures/README.md"

func TestCatalogue_NamesAndTestsAgree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, catalogue))
	require.NoError(t, err)
	require.Contains(t, string(text), "| A5 |", "the rows are read")
	none(t, arch.Catalogue(catalogue, string(text), sources(t)))
}

func TestCatalogue_Samples(t *testing.T) {
	t.Parallel()
	const head = "| name | what happened | source | test |\n|---|---|---|---|\n"
	row := func(name, tests string) string {
		return "| " + name + " | It broke | [x#1](https://example.com/1) | " + tests + " |\n"
	}
	cases := []struct{ name, text, source, want string }{
		{"test and row agree", row("A5", "`TestA5_X`"), "func TestA5_X(t *testing.T) {}", ""},
		{"row without a test", row("A5", ""), "", ""},
		{"two tests", row("A5", "`TestA5_X`, `TestA5_Y`"), "func TestA5_X(t *testing.T) {}\nfunc TestA5_Y(t *testing.T) {}", ""},
		{"test of no failure", row("A5", ""), "func TestParse_X(t *testing.T) {}", ""},
		{"test of an unknown failure", row("A5", ""), "func TestA6_X(t *testing.T) {}", "not in"},
		{"test that is not listed", row("A5", ""), "func TestA5_X(t *testing.T) {}", "not beside A5"},
		{"test that does not exist", row("A5", "`TestA5_X`"), "", "no test TestA5_X"},
		{"row without a source", "| A5 | It broke | nowhere | |\n", "", "no row"},
		{"name given twice", row("A5", "") + row("A5", ""), "", "twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := arch.Source{Path: "tests/failures/x_test.go", Text: []byte("package x\n" + c.source)}
			expect(t, c.want, arch.Catalogue("README.md", head+c.text, []arch.Source{source}))
		})
	}
}
