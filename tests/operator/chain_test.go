package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/tests/operator"
)

// chain is a Backup and a Restore by the Operator, with our br as toolImage of both.
type chain struct {
	*operator.Operator

	stores int
	ts     cluster.TS
}

// Backup implements round.Driver.
func (c *chain) Backup(ctx context.Context, bed *testbed.Testbed) (cluster.TS, error) {
	c.Bed = bed
	var err error
	c.ts, err = c.Operator.Backup(ctx, round.Source())
	return c.ts, err
}

// Restore implements round.Driver.
func (c *chain) Restore(ctx context.Context, _ *testbed.Testbed) error {
	return c.Operator.Restore(ctx, round.Target(), c.stores, c.ts)
}

// initialize → execute → teardown, under load; the cluster is destroyed; restore-volume → restore-data → restore-finish;
// every row is verified.
func TestOperator_WholeChain_EveryRowIsBack(t *testing.T) {
	t.Parallel()
	c := &chain{Operator: &operator.Operator{Dir: t.TempDir(), Program: program(t)}, stores: 3}
	result, err := round.Run(within(t), round.Config{
		Dir: t.TempDir(), Driver: c, Seed: 12, Nodes: 9, Stores: c.stores, Scale: 10, Volume: recordedVolume, Progress: t.Logf,
	})
	require.NoError(t, err)
	require.Positive(t, result.Rows)
	require.Positive(t, result.During, "transfers continued while the backup ran")
	t.Log(result.Checks)
}
