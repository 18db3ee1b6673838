package operator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/tests/operator"
)

// Every recorded call of br is one that the chain replays, byte for byte except for the places.
func TestRecorded_Calls_AreReplayed(t *testing.T) {
	t.Parallel()
	calls, err := operator.RecordedCalls()
	require.NoError(t, err)
	require.Len(t, calls, 2)
	for i, step := range []string{"restore-volume", "restore-data"} {
		args, err := operator.CommandLine(step)
		require.NoError(t, err)
		require.Equal(t, calls[i].Args, args, step)
		require.Equal(t, "\x01", calls[i].Env["BR_LOG_TO_TERM"], step)
	}
}

// A process of br knows how long the pod of its Job may live after SIGTERM.
func TestRecorded_GracePeriods_AreKnownToBR(t *testing.T) {
	t.Parallel()
	for _, name := range operator.Jobs() {
		job, err := operator.RecordedJob(name)
		require.NoError(t, err)
		want := brcompat.BackupGrace
		if strings.HasPrefix(name, "job-restore") {
			want = brcompat.RestoreGrace
		}
		require.EqualValues(t, want/time.Second, *job.Spec.Template.Spec.TerminationGracePeriodSeconds, name)
	}
}
