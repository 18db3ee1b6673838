package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

// Every path, file and make target that a page names exists.
func TestMarkdown_NamesWhatIsThere(t *testing.T) {
	t.Parallel()
	const mine = "docs/eks.md has the reader make it"
	named := arch.Named{Files: files(t), Targets: makeTargets(t), Except: map[string]string{
		"manifests/kustomize/overlays/mine": mine, "manifests/kustomize/overlays/mine/kustomization.yaml": mine,
	}}
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			none(t, named.Missing(page))
		})
	}
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	out := arch.Targets(makefile)
	require.True(t, out["demo"] && out["SUITE"] && !out["nonsense"])
	return out
}

// files are those of the module, by their path in it.
func files(t *testing.T) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == ".tools") {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	}))
	return out
}

func TestNamed_Samples(t *testing.T) {
	t.Parallel()
	named := arch.Named{
		Files:   []string{"pkg/a/b.go", "pkg/c/d_test.go", "docs/e.md", ".ci/run"},
		Targets: arch.Targets([]byte("N ?= 20\nbuild: ## builds\n\tgo $(SEED)\n")),
		Except:  map[string]string{"docs/mine": "the reader makes it"},
	}
	for text, want := range map[string]int{
		"`pkg/a`, `pkg/{a,c}`, pkg/a/*.go and ../../docs/e.md; [x](docs/mine) `b.go` `.ci/run`": 0,
		"https://host/manifests/crd.yaml and s3://docs/x":                                       0,
		"`make build N=3 SEED=1` or\n```\nmake build\n```\nto make sure":                        0,
		"`pkg/b`":                    1,
		"apply -f pkg/a/gone.yaml":   1,
		"`pkg/{a,x}/b.go`":           1,
		"`gone.go`":                  1,
		"`make nothing`":             1,
		"```\nmake build M=1\n```\n": 1,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			assert.Len(t, named.Missing(arch.Source{Path: "README.md", Text: []byte(text)}), want)
		})
	}
}
