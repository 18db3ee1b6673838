package report_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// A report that was stored with a secret in an error, a warning or an attempt is shown without, in each form.
func TestRendered_SecretsInErrors_AreRedacted(t *testing.T) {
	t.Parallel()
	const text = "Get https://user:hIdDeN@h/k?X-Amz-Security-Token=hIdDeN&X-Amz-Signature=hIdDeN: EOF"
	r := report.New(backupRun())
	r.Error, r.Warnings, r.Checks = text+"\n"+text, []string{text}, []string{text}
	r.Hold.Failed = []phase.Attempt{{Number: 1, Step: "hold", Error: text}}
	var table, document, stored bytes.Buffer
	o := report.TableOptions{Details: true, Compare: true}
	require.NoError(t, r.Table(&table, o))
	require.NoError(t, r.Markdown(&document, o))
	require.NoError(t, r.JSON(&stored))
	for form, shown := range map[string]string{"table": table.String(), "markdown": document.String(), "JSON": stored.String()} {
		require.NotContains(t, shown, "hIdDeN", form)
		require.Contains(t, shown, "X-Amz-Signature", form)
	}
	require.Equal(t, text+"\n"+text, r.Error, "the report itself is as it was")
}
