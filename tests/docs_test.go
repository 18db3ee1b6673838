package tests

import (
	"os"
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
				assert.Regexp(t, "`"+name+"(\\[\\])?`", page, "docs/storage.md says what it is")
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
		assert.Contains(t, storagePage(t), "`"+tag[1], "docs/storage.md says what it is")
	}
}
