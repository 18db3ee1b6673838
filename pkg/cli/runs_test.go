package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/runs"
)

// A run whose process was killed holds its lock for minutes, and is not shown as one that runs.
func TestRuns_LockIsNotRenewed_IsShownAsDead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	alive := runs.Run{ID: "alive", State: runs.Running, Owner: "pid 7 on host h", Until: &at, RenewedAt: &at}
	dead := alive
	dead.ID, dead.Silent = "dead", true
	var list, one strings.Builder
	require.NoError(t, (&runsDoc{now: at, Items: []runs.Run{alive, dead}}).table(&list, view{}))
	require.Regexp(t, `alive .* running `, list.String())
	require.Regexp(t, `dead .* dead\? `, list.String())
	require.NoError(t, (&runDoc{Run: dead}).table(&one, view{}))
	require.Contains(t, one.String(), "the lock was last renewed at 2026-01-01 12:00:00 UTC")
	one.Reset()
	require.NoError(t, (&runDoc{Run: alive}).table(&one, view{}))
	require.NotContains(t, one.String(), "not renewed")
}
