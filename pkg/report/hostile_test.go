package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestRendered_HostileTexts_DoNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"markup": "<script>alert(1)</script> [x](javascript:y) | `z` ![i](http://h)", "ansi": "\x1b[2J\x1b[31mred\x07\x1b]0;t\x07",
		"lines": "a\r\nb\u2028c\u202eevil", "long": strings.Repeat("x", 10_000), "not utf-8": "\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.New(backupRun())
			r.Run, r.Backup, r.Outcome = cluster.RunID(text), cluster.BackupID(text), phase.Outcome(text)
			r.Cluster, r.Error, r.Warnings, r.Checks = cluster.Name{Namespace: text, Name: text}, text, []string{text}, []string{text}
			r.Phases[0].Name, r.Phases[0].Steps[0].Name, r.Phases[0].Outcome = text, text, phase.Outcome(text)
			r.Hold.Failed = []phase.Attempt{{Number: 1, Step: text, Error: text}}
			r.VolumeSettings, r.Changed = &report.VolumeSettings{Type: text}, &report.Changed{Since: cluster.BackupID(text), Of: 1}
			var table, document bytes.Buffer
			o := report.TableOptions{Details: true, Compare: true}
			require.NoError(t, r.Table(&table, o))
			require.NoError(t, r.Markdown(&document, o))
			for form, text := range map[string]string{"table": table.String(), "markdown": document.String()} {
				require.NotRegexp(t, "[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", text, form)
				require.NotContains(t, text, strings.Repeat("x", 2100), form)
			}
			outsideCode := regexp.MustCompile(`(?m)^\*\*Error:.*$`).ReplaceAllString(document.String(), "")
			require.NotContains(t, outsideCode, "<script")
			require.NotRegexp(t, `(^|[^\\])(\]\(|!\[)`, outsideCode, "no link and no picture")
		})
	}
}
