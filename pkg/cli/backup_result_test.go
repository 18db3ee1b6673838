package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// The table's last line must not contradict the exit code.
func TestBackupResult_Failed_ReportsWhatIsHeld(t *testing.T) {
	t.Parallel()
	opts := backup.Options{Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}}
	for name, c := range map[string]struct {
		kind failure.Kind
		want string
	}{
		"failed and undone": {failure.Limited, "no backup was made; this run does not hold cluster tidb/prod"},
		"still held":        {failure.Held, "cluster tidb/prod is STILL HELD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			result := &backup.Result{Outcome: runner.Outcome{Journalled: true, Timings: phase.Timings{{Phase: "volume snapshots", Steps: []phase.StepTiming{{Name: "cut"}}}}}}
			err := failure.Wrap(errors.New("broken"), c.kind, "cut", "")
			require.NoError(t, backupResult(t.Context(), opts, result, err).table(&out, view{}))
			assert.Contains(t, out.String(), c.want)
			assert.NotContains(t, out.String(), "is released")
			assert.NotContains(t, out.String(), "error: ", "it follows on stderr")
		})
	}
}

// A run that a signal ended is interrupted in its report and its event too, whatever failed because of that; a cluster that
// is still held outranks it.
func TestBackupResult_EndedByASignal_IsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(&phase.StopError{Reason: errTerminated})
	for kind, want := range map[failure.Kind]string{failure.Limited: "interrupted", failure.Held: "held"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			err := failure.New(kind, "await-snapshots", "", "stopped")
			doc := backupResult(ctx, backup.Options{}, &backup.Result{}, err)
			require.Equal(t, want, doc.Report.ErrorKind)
			require.Equal(t, want, summaryOf(nil, doc, err, exitCode(ctx, err)).Kind)
		})
	}
}
