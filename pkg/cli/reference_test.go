package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseTime_PointsAndSpans(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h ago": now.Add(-2 * time.Hour), "2h": now.Add(-2 * time.Hour), "3d": now.AddDate(0, 0, -3),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), "2026-11-22T11:30:00+02:00": now.Add(-30 * time.Minute),
		"yesterday": {}, "-2h": {}, " ago": {}, "2026-11-22T10:00:00": {},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := parseTime("before", text, now)
			require.Equal(t, want.IsZero(), err != nil)
			require.True(t, want.Equal(got), got)
			if err != nil {
				require.ErrorContains(t, err, `want 30d, "2h ago", 2026-11-01 or 2026-11-01T10:00:00Z`)
			}
		})
	}
}

func TestLatest_WrongUse_IsRefused(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	for line, want := range map[string]struct {
		code ExitCode
		text string
	}{
		"describe b --before 2h":                     {2, "give latest as BACKUP"},
		"restore b --to a/b --of tidb/prod":          {2, "give latest as BACKUP"},
		"report --before 2h":                         {2, "give latest as BACKUP"},
		"restore latest --to a/b --before yesterday": {2, `--before "yesterday"`},
		"describe latest":                            {4, "no sealed backup matches"},
		"report latest":                              {4, "no sealed backup matches"},
		"copy latest --from-storage " + url:          {4, "no sealed backup matches"},
		"drill --cluster a/b --of a/b":               {2, "without --cluster"},
		"backup a/b --name latest":                   {2, "--name latest"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, append(strings.Fields(line), "--storage", url)...)
			require.Equal(t, want.code, code, stderr)
			require.Empty(t, out)
			require.Contains(t, stderr, want.text)
		})
	}
}
