package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/tests/arch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the module's folder, seen from this package's.
const root = "../.."

// packages asks go list, which knows about build constraints.
func packages(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir = root
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, problems.String())
	found := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		found[p.ImportPath] = p.Imports
	}
}

func TestModule_ImportsKeepTheRules(t *testing.T) {
	t.Parallel()
	found := packages(t, "./...")
	require.Contains(t, found, arch.Module+"/pkg/failure", "go list sees the module")
	for pkg, imports := range found {
		none(t, arch.Layering(pkg, imports))
		none(t, arch.Confinement(pkg, imports))
	}
}

func TestModule_ShippedBinariesLinkNoStandIn(t *testing.T) {
	t.Parallel()
	for _, binary := range []string{"cmd/tisnap", "cmd/br"} {
		t.Run(binary, func(t *testing.T) {
			t.Parallel()
			if files, err := filepath.Glob(filepath.Join(root, binary, "*.go")); err != nil || len(files) == 0 {
				t.Skip("there is no such binary yet")
			}
			var dependencies []string
			for pkg := range packages(t, "-deps", "./"+binary) {
				dependencies = append(dependencies, pkg)
			}
			none(t, arch.Linked(binary, dependencies))
		})
	}
}

func TestModule_SourceKeepsTheStyle(t *testing.T) {
	t.Parallel()
	all := sources(t)
	require.NotEmpty(t, all)
	for _, s := range all {
		none(t, arch.Style(s))
	}
	none(t, arch.Documented(all))
}

// sources reads the module's Go files; folders with a go.mod of their own are other modules.
func sources(t *testing.T) []arch.Source {
	t.Helper()
	var found []arch.Source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(path, d.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		found = append(found, arch.Source{Path: filepath.ToSlash(rel), Text: text})
		return err
	})
	require.NoError(t, err)
	return found
}

func enter(path, name string) error {
	if path == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if err == nil || name == "testdata" || strings.HasPrefix(name, ".") {
		return filepath.SkipDir
	}
	return nil
}

func none(t *testing.T, found []arch.Violation) {
	t.Helper()
	for _, v := range found {
		assert.Fail(t, v.String())
	}
}
