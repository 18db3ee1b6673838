package phase_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

// Whoever may read the storage reads the journal: an error of a step, of an undo and of the run has no secret in it.
func TestRun_SecretInAnError_IsNotJournalled(t *testing.T) {
	t.Parallel()
	secret := errors.New("Put https://user:hIdDeN@h/k?X-Amz-Signature=hIdDeN: refused")
	j, tr := &memory{}, &trace{}
	first := tr.step("first", nil)
	first.Undo.Do = tr.step("undo", secret).Do
	require.Error(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{first, tr.step("second", secret)}))
	records, err := j.Records(t.Context())
	require.NoError(t, err)
	var texts []string
	for _, r := range records {
		if r.Error != "" {
			texts = append(texts, r.Error)
		}
	}
	require.GreaterOrEqual(t, len(texts), 3, "the step, the undo and the end")
	require.NotContains(t, strings.Join(texts, "\n"), "hIdDeN")
}
