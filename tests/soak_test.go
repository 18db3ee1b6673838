package tests

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// roundDeadline bounds one small round; it takes a few seconds without the race detector.
const roundDeadline = 2 * time.Minute

// TestSoak makes rounds with random seeds: crash positions, apply lag, splits and leader moves during the
// hold differ in each. The program has the permissions of manifests/iam-policy.json and no others. A failure prints the seed; run it again with -seed.
func TestSoak(t *testing.T) {
	t.Parallel()
	first := *seedFlag
	if first == 0 {
		first = time.Now().UnixNano() % 1_000_000
	}
	for i := range int64(*rounds) {
		seed := first + i
		ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
		log := &shipped.Output{}
		start := time.Now()
		faults := &fault.Plan{}
		r, err := round.Run(ctx, round.Config{
			Dir: t.TempDir(), Tisnap: underPolicy(t, faults, inProcess(t, log)), Faults: faults, Seed: seed, Scale: 4,
		})
		cancel()
		if err != nil {
			t.Logf("output of the program:\n%s", log)
		}
		require.NoError(t, err, "run again with: make soak N=1 SEED=%d", seed)
		t.Logf("seed %d: %d rows in %d regions right after %d transfers, %d during the backup, in %s",
			seed, r.Rows, r.Regions, r.Commits, r.During, time.Since(start).Round(time.Millisecond))
	}
}
