package crash_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed/crash"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// A sample of `make soak SUITE=kills`.
func TestKills_ArchiveKilled_IsFinishedAndReadsLittleTwice(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	r, err := crash.Kills(ctx, crash.KillsConfig{Tisnap: path, Seed: 3, Kills: 2})
	require.NoError(t, err, r.Output)
	require.Equal(t, 2, r.Kills)
	require.Positive(t, r.Reads)
}
