package tests

import (
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// storagePage is docs/storage.md.
func storagePage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/storage.md")
	require.NoError(t, err)
	return string(text)
}

// Every field of what is stored is documented.
func TestDocs_FieldsInStorage(t *testing.T) {
	t.Parallel()
	page := storagePage(t)
	for _, document := range []any{
		manifest.Manifest{}, manifest.Snapshot{}, manifest.SealRecord{}, manifest.TombstoneRecord{}, phase.Record{}, runlock.Record{}, runlock.Owner{},
	} {
		of := reflect.TypeOf(document)
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			for _, field := range reflect.VisibleFields(of) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name == "" || name == "-" || name == "apiVersion" {
					continue
				}
				assert.Regexp(t, "`"+name+"(\\[\\])?`", page, "docs/storage.md describes it")
			}
		})
	}
}

// Every tag that is written is documented.
func TestDocs_Tags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../pkg/ebs/contract.go")
	require.NoError(t, err)
	tags := regexp.MustCompile(`"(tisnap\.io/[a-z-]+)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, tags)
	for _, tag := range tags {
		assert.Contains(t, storagePage(t), "`"+tag[1], "docs/storage.md describes it")
	}
}

// Every fact about a real system has the test that docs/stand-ins.md names, in the package that it names.
func TestDocs_StandIns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/stand-ins.md")
	require.NoError(t, err)
	sections := map[string]string{} // by the stand-in's folder
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		if _, folder, found := strings.Cut(title, "`"); found {
			sections[strings.TrimSuffix(folder, "`")] += section
		}
	}
	for folder, section := range sections {
		var files []string
		for _, of := range []string{folder, path.Dir(folder)} { // some are tests of its adapter
			found, err := filepath.Glob("../" + of + "/*_test.go")
			require.NoError(t, err)
			files = append(files, found...)
		}
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
		named := map[string]bool{}
		for _, test := range regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
			named[test[1]] = true
			assert.Contains(t, source.String(), "func "+test[1]+"(", folder)
		}
		for _, fact := range regexp.MustCompile(`func (TestFacts_[A-Za-z0-9_]+)\(`).FindAllStringSubmatch(source.String(), -1) {
			assert.True(t, named[fact[1]], "docs/stand-ins.md names %s", fact[1])
		}
	}
}
