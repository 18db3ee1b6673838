package br_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

var update = flag.Bool("update", false, "write the golden files again")

// lines are those that the Operator, or a person beside it, looks for, without what differs from run to run.
func (j *job) lines() string {
	known := []string{"paused.", "All ready.", "resumed.", "EBS backup", "br failed", "BR operation"}
	var out []string
	for line := range strings.SplitSeq(j.out(), "\n") {
		if !slices.ContainsFunc(known, func(text string) bool { return strings.Contains(line, text) }) {
			continue
		}
		for _, change := range [][2]string{
			{`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d`, "TIME"},
			{`\[\w+\.go:\d+\]`, "[FILE]"},
			{`\d{8}t\d{6}-[0-9a-f]{8}`, "RUN"},
			{`(size|resolved_ts)=\d+`, "$1=N"},
			{`cut=[0-9.]+[^]]+`, "cut=N"},
			{`started_at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d)`, "started_at=TIME"},
		} {
			line = regexp.MustCompile(change[0]).ReplaceAllString(line, change[1])
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}

func TestLines_AreThoseOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t)
	pause.awaitLine(t, "All ready")
	backup := p.backup(t, underPause, "--log-level=error") // what the Operator waits for does not depend on it
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	again := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitFailed, again.ends(t))
	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t))
	got := "# operator pause-gc-and-schedulers\n" + pause.lines() + "# backup full\n" + backup.lines() + "# backup full, in a prefix that is used\n" + again.lines()

	path := filepath.Join("testdata", "lines.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
