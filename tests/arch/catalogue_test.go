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
	test := func(code, name string) string {
		return "// Catalogue: " + code + ".\nfunc " + name + "(t *testing.T) {}\n"
	}
	cases := []struct{ name, text, source, want string }{
		{"test and row agree", row("A5", "`TestX`"), test("A5", "TestX"), ""},
		{"row without a test", row("A5", ""), "", ""},
		{"two tests", row("A5", "`TestX`, `TestY`"), test("A5", "TestX") + test("A5", "TestY"), ""},
		{"test of no failure", row("A5", ""), "func TestParse_X(t *testing.T) {}", ""},
		{"test of an unknown failure", row("A5", ""), test("A6", "TestX"), "not in"},
		{"test that is not listed", row("A5", ""), test("A5", "TestX"), "not beside A5"},
		{"test that does not exist", row("A5", "`TestX`"), "", "no test TestX"},
		{"test of another failure", row("A5", "`TestX`") + row("A6", "`TestX`"), test("A6", "TestX"), "A5: there is no test TestX"},
		{"test without its code", row("A5", "`TestX`"), "func TestX(t *testing.T) {}", "no test TestX"},
		{"test that is named after its code", row("A5", ""), "func TestA5_X(t *testing.T) {}", "named after a code"},
		{"code above nothing", row("A5", "`TestX`"), test("A5", "TestX") + "// Catalogue: A5.\n\nfunc TestY(t *testing.T) {}", "2 lines name codes"},
		{"row without a source", "| A5 | It broke | nowhere | |\n", "", "no row"},
		{"code given twice", row("A5", "") + row("A5", ""), "", "twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := arch.Source{Path: "tests/failures/x_test.go", Text: []byte("package x\n" + c.source)}
			expect(t, c.want, arch.Catalogue("README.md", head+c.text, []arch.Source{source}))
		})
	}
}
