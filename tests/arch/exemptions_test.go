package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/tests/arch"
)

func TestModule_LinesKeptFromLinters(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	require.NoError(t, err)
	var config struct{ Linters arch.Linters }
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.NotEmpty(t, config.Linters.Enable)
	require.NotEmpty(t, config.Linters.Exclusions.Rules)
	none(t, arch.Exemptions(config.Linters, sources(t)))
}

func TestExemptions_Samples(t *testing.T) {
	t.Parallel()
	const one = "var a = f() //nolint:gosec // small\n"
	cases := []struct{ name, path, text, want string }{
		{"with a reason", "pkg/x/x.go", one, ""},
		{"of two linters", "pkg/x/x.go", "var a = f() //nolint:gosec,noctx // small\n", ""},
		{"in a string", "pkg/x/x.go", "const a = \"//nolint\"\n", ""},
		{"as many as may be", "pkg/x/x.go", strings.Repeat(one, arch.MaxExemptions), ""},
		{"too many", "pkg/x/x.go", strings.Repeat(one, arch.MaxExemptions+1), "lines of shipped code"},
		{"too many for shipped code", "pkg/x/xtest/x.go", strings.Repeat(one, arch.MaxExemptions+1), ""},
		{"without a reason", "pkg/x/x.go", "var a = f() //nolint:gosec\n", "why"},
		{"of all linters", "pkg/x/x.go", "var a = f() //nolint // small\n", "LINTER"},
		{"of a linter that does not run", "pkg/x/x.go", "var a = f() //nolint:nilnil // small\n", "does not run"},
		{"of a test", "pkg/x/x_test.go", one, ""},
		{"of a test, without a reason", "pkg/x/x_test.go", "var a = f() //nolint:gosec\n", "why"},
		{"of a test, of a linter that does not run", "pkg/x/x_test.go", "var a = f() //nolint:nilnil // small\n", "does not run"},
		{"of a test, of a linter that runs elsewhere", "pkg/x/x_test.go", "var a = f() //nolint:noctx // small\n", "does not run"},
		{"of a stand-in, of a linter that does not run", "pkg/x/xtest/x.go", "var a = f() //nolint:nilnil // small\n", "does not run"},
	}
	linters := arch.Linters{Enable: []string{"gosec", "noctx"}}
	linters.Exclusions.Rules = []arch.Exclusion{
		{Path: `_test\.go$`, Linters: []string{"noctx"}},
		{Path: `_test\.go$`, Linters: []string{"gosec"}, Text: "G115"},
		{Text: "a finding", Linters: []string{"gosec"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := arch.Source{Path: c.path, Text: []byte("package x\n" + c.text)}
			expect(t, c.want, arch.Exemptions(linters, []arch.Source{source}))
		})
	}
}
