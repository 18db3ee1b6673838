package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

// pages are the module's Markdown files by their path.
func pages(t *testing.T) map[string]arch.Source {
	t.Helper()
	out := map[string]arch.Source{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == ".tools") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		out[filepath.ToSlash(rel)] = arch.Source{Path: filepath.ToSlash(rel), Text: text}
		return err
	})
	require.NoError(t, err)
	require.Contains(t, out, "README.md")
	return out
}

func TestMarkdown_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	for name, page := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			none(t, arch.Links(page, all, exists))
		})
	}
}

func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	none(t, arch.ReadmeLength(pages(t)["README.md"]))
	long := arch.Source{Path: "README.md", Text: []byte(strings.Repeat("line\n", arch.MaxReadmeLines+1))}
	assert.Len(t, arch.ReadmeLength(long), 1)
}

func TestLinks_Samples(t *testing.T) {
	t.Parallel()
	there := arch.Source{Path: "docs/there.md", Text: []byte("# There\n\n## What `--x` is, now\n\n```\n# not a heading\n```\n")}
	for text, want := range map[string]int{
		"[a](there.md), [b](../Makefile), [c](https://x/y.md)": 0,
		"[a](there.md#what---x-is-now) [b](#here)":             0,
		"[a](gone.md)":                         1,
		"[a](there.md#not-a-heading)":          1,
		"[a](#nowhere) and [b](../gone/)":      2,
		"```\n[a](gone.md)\n```\n[b](gone.md)": 1,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			page := arch.Source{Path: "docs/page.md", Text: []byte("# Here\n" + text + "\n")}
			all := map[string]arch.Source{page.Path: page, there.Path: there}
			assert.Len(t, arch.Links(page, all, func(name string) bool { return name == "Makefile" }), want)
		})
	}
}
