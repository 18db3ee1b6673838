package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

// written are the files that people read: sources, documents, scripts, manifests.
var written = regexp.MustCompile(`(\.(go|md|sh|yaml|yml|toml)|/Makefile|/Dockerfile|^Makefile|^Dockerfile|\.ci/run)$`)

func TestWords_OldOnesDoNotComeBack(t *testing.T) {
	t.Parallel()
	read := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !written.MatchString(rel) || strings.HasPrefix(rel, "tests/arch/words") {
			return nil
		}
		text, err := os.ReadFile(path)
		read++
		none(t, arch.Words(arch.Source{Path: rel, Text: text}))
		return err
	})
	require.NoError(t, err)
	require.Greater(t, read, 400, "the files are found")
}

func TestWords_Samples(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, path, text, want string }{
		{"in a comment", "pkg/x/x.go", "package x\n\n// F begins anew.\nfunc F() {}\n", "again"},
		{"in a message", "pkg/x/x.go", "package x\n\nconst c = \"the run goes on with it\"\n", "resume"},
		{"in a document", "README.md", "Gone on with by whoever comes next.\n", "resume"},
		{"in a script", "Makefile", "all: ## tells what is left\n", "reports"},
		{"over two words", "pkg/x/x.go", "package x\n\n// F lets go of the cluster.\nfunc F() {}\n", "release"},
		{"with a word between", "docs/x.md", "The run lets it go.\n", "release"},
		{"of what cannot be seen", "pkg/x/x.go", "package x\n\nconst c = \"the store is not known\"\n", "unknown"},
		{"what is shown for a price", "pkg/x/x.go", "package x\n\nconst c = \"not known\"\n", ""},
		{"of a person", "pkg/x/x.go", "package x\n\nconst c = \"Somebody else has the lock\"\n", "someone"},
		{"of no person", "pkg/x/x.go", "package x\n\n// No lock: nobody else has it.\n", "no run"},
		{"a request without a body", "pkg/x/x.go", "package x\n\nvar b = http.NoBody\n", ""},
		{"a test that talks", "pkg/x/x_test.go", "package x\n\nfunc TestF_Refused_SaysWhy(t *testing.T) {}\n", "guaranteed"},
		{"a test of nobody", "docs/x.md", "`TestF_NobodyListens` holds it.\n", "guaranteed"},
		{"a test of what is held", "pkg/x/x_test.go", "package x\n\nfunc TestF_Essays_Untold(t *testing.T) {}\n", ""},
		{"a type that talks", "pkg/x/x.go", "package x\n\n// A says whether b.\n", "reports"},
		{"a document that talks", "docs/x.md", "The page says so.\n", ""},
		{"of a region", "docs/x.md", "The region is taken back.\n", "flash back"},
		{"within a word", "pkg/x/x.go", "package x\n\n// A renewal is intellectual; toldo.\n", ""},
		{"a JSON name", "pkg/x/x.go", "package x\n\ntype t struct {\n\tA int `json:\"told\"`\n}\n", ""},
		{"a name", "pkg/x/x.go", "package x\n\nvar mostRows = 1\n", "max or min"},
		{"a name in a sentence", "pkg/x/x.go", "package x\n\n// What is wrong, look, most of all.\n", ""},
		{"a name within a folder", "pkg/hold/x.go", "package x\n\nfunc recoverStale() {}\n", "release leftovers"},
		{"a callback that talks", "pkg/x/x.go", "package x\n\ntype t struct{ Say func(string) }\n", "Progress"},
		{"a local name", "pkg/x/x.go", "package x\n\nfunc f() { mostRows := 1; _ = mostRows }\n", ""},
		{"a field", "pkg/hold/x.go", "package x\n\ntype t struct{ wrong bool }\n", "what kind of error"},
		{"a stand-in's name", "pkg/tikv/tikvtest/x.go", "package x\n\nfunc look() {}\n", ""},
		{"a name elsewhere", "pkg/resolve/x.go", "package x\n\nfunc recoverRegions() {}\n", ""},
		{"a file's name", "pkg/cluster/words.go", "package cluster\n", "convert.go"},
		{"a file's name that is a code", "tests/failures/ebs/b_cut_test.go", "package ebs_test\n", "cut_test.go"},
		{"a file's name that is no code", "tests/failures/ebs/cut_test.go", "package ebs_test\n", ""},
		{"a file's name with what is retried", "pkg/hold/again.go", "package hold\n", "retry_hold.go"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, c.want, arch.Words(arch.Source{Path: c.path, Text: []byte(c.text)}))
		})
	}
}
