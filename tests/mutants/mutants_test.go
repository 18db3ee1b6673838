package mutants_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/tests/mutants"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSample_IsFixedAndSpread(t *testing.T) {
	t.Parallel()
	all := mutants.All()
	require.Len(t, mutants.Sample(all, 7), 7)
	require.Equal(t, mutants.Sample(all, 7), mutants.Sample(all, 7))
	require.Len(t, mutants.Sample(all, 0), len(all))
	require.Len(t, mutants.Sample(all, len(all)+1), len(all))
	packages := map[string]bool{}
	for _, m := range mutants.Sample(all, 10) {
		packages[m.Package] = true
	}
	require.Greater(t, len(packages), 5, "of the whole table")
}

// module is a module of one function with a guard, with tests that notice the guard and tests that do not.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.24\n",
		"x.go":   "package x\n\nfunc Div(a, b int) int {\n\tif b == 0 {\n\t\treturn 0\n\t}\n\treturn a / b\n}\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestDiv_ByZero(t *testing.T) { Div(1, 0) }\n\n" +
			"func TestDiv_ByTwo(t *testing.T) {\n\tif Div(4, 2) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestRunner_EachOutcome_IsItsOwn(t *testing.T) {
	t.Parallel()
	runner := mutants.Runner{Root: module(t), Dir: t.TempDir()}
	cases := []struct{ name, from, to, tests, want string }{
		{"its test fails", "if b == 0 {", "if false {", "TestDiv_ByZero", ""},
		{"its tests pass", "if b == 0 {", "if false {", "TestDiv_ByTwo", "survived"},
		{"there is no such test", "if b == 0 {", "if false {", "TestDiv_ByThree", "no test of that name"},
		{"it does not compile", "if b == 0 {", "if b == nil {", "TestDiv_ByZero", "does not compile"},
		{"it does not parse", "if b == 0 {", "if {", "TestDiv_ByZero", "does not parse"},
		{"the guard is gone", "if b == 1 {", "if false {", "TestDiv_ByZero", "does not apply"},
		{"the guard is there twice", "return", "panic", "TestDiv_ByZero", "2 times"},
		{"nothing is changed", "if b == 0 {", "if b == 0 {", "TestDiv_ByZero", "changes nothing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := runner.Run(t.Context(), mutants.Mutant{File: "x.go", Old: c.from, New: c.to, Package: ".", Tests: c.tests})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
