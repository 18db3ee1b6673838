package mutants_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/tests/mutants"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSample_IsFixedAndSpread(t *testing.T) {
	t.Parallel()
	all := mutants.All()
	require.Len(t, mutants.Sample(all, 7, nil), 7)
	require.Equal(t, mutants.Sample(all, 7, nil), mutants.Sample(all, 7, nil))
	require.Len(t, mutants.Sample(all, 0, nil), len(all))
	require.Len(t, mutants.Sample(all, len(all)+1, nil), len(all))
	packages := map[string]bool{}
	for _, m := range mutants.Sample(all, 10, nil) {
		packages[m.Package] = true
	}
	require.Greater(t, len(packages), 5, "of the whole table")
}

func TestSample_RowsOfChangedFiles_AreFirstAndNoneIsTwice(t *testing.T) {
	t.Parallel()
	var all []mutants.Mutant
	for i := range 30 {
		all = append(all, mutants.Mutant{Name: strconv.Itoa(i), File: "pkg/" + strconv.Itoa(i%10) + ".go"})
	}
	cases := []struct {
		name    string
		n       int
		changed []string
		want    []string
	}{
		{"they fit", 5, []string{"pkg/4.go", "README.md"}, []string{"4", "14", "24", "0", "15"}},
		{"they are all that fits", 3, []string{"pkg/4.go"}, []string{"4", "14", "24"}},
		{"they are more", 2, []string{"pkg/4.go", "pkg/5.go"}, []string{"4", "15"}},
		{"none has a row", 2, []string{"README.md"}, []string{"0", "15"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range mutants.Sample(all, c.n, c.changed) {
				got = append(got, m.Name)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// git runs git in a repository that has no other settings than these.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func commit(t *testing.T, dir, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "x")
}

func TestChanged_WithAndWithoutHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Empty(t, mutants.Changed(t.Context(), dir), "no repository")
	git(t, dir, "init", "-q", "-b", "main")
	require.Empty(t, mutants.Changed(t.Context(), dir), "no commit")
	commit(t, dir, "a.go", "1")
	require.Empty(t, mutants.Changed(t.Context(), dir), "nothing to compare the only commit with")
	commit(t, dir, "b.go", "1")
	commit(t, dir, "pkg/c.go", "1")
	require.Equal(t, []string{"b.go", "pkg/c.go"}, mutants.Changed(t.Context(), dir), "the last commits, as there is no other branch")

	clone := t.TempDir()
	git(t, clone, "clone", "-q", dir, ".")
	commit(t, clone, "d.go", "1")
	require.Equal(t, []string{"d.go"}, mutants.Changed(t.Context(), clone), "since the branch that it came from")
	require.NoError(t, os.WriteFile(filepath.Join(clone, "a.go"), []byte("2"), 0o600))
	require.Equal(t, []string{"a.go", "d.go"}, mutants.Changed(t.Context(), clone), "and what is not committed yet")

	shallow := t.TempDir()
	git(t, shallow, "clone", "-q", "--depth=1", "file://"+dir, ".")
	require.Empty(t, mutants.Changed(t.Context(), shallow), "a shallow clone of one commit")
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
