package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// What tables of docs/disaster-recovery.md quote is in a message of the program, except for numbers and names.
func TestDocs_QuotedMessages(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		sources.Write(text)
		return err
	}))
	messages := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(sources.String(), "")
	found := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*$`).FindAllString(userPages(t)["docs/disaster-recovery.md"], -1) {
		for _, quoted := range regexp.MustCompile(`"([^"`+"`"+`]{10,})"`).FindAllStringSubmatch(row, -1) {
			for _, part := range regexp.MustCompile(`…|\d+|tidb/copy|nightly-`).Split(quoted[1], -1) {
				if part = strings.TrimSpace(part); len(part) > 1 {
					found++
					assert.True(t, strings.Contains(messages, part), "no message has %q", part)
				}
			}
		}
	}
	assert.Greater(t, found, 5)
}

// The refusal that docs/resume.md shows is what is printed.
func TestDocs_AnotherRequest(t *testing.T) {
	t.Parallel()
	was := journal.About{Operation: journal.Restore, Request: map[string]string{"volume-iops": "16000"}}
	other := journal.About{Operation: journal.Restore, Request: map[string]string{"volume-iops": "7000"}}
	err := was.SameRequest("20261122t100000-1a2b3c4d", &other)
	var out strings.Builder
	(&app{streams: Streams{Err: &out}}).printError(err, exitCodeOf(failure.Conflict))
	assert.Contains(t, userPages(t)["docs/resume.md"], "```\n"+out.String()+"```")
}
