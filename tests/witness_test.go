package tests

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// A whole round of a cluster whose regions have witnesses, voters that have the log and no data, each store some: every row
// is right, and the restored regions have them still.
func TestRound_RegionsWithWitnesses_EveryRowIsRight(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	log := &shipped.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	before, after := 0, 0
	_, err := round.Run(ctx, round.Config{
		Dir: t.TempDir(), Seed: 5, Scale: 4, Accounts: accounts, Regions: 8,
		Tisnap: func(bed *testbed.Testbed) round.Tisnap {
			run := inProcess(t, log)(bed)
			return func(ctx context.Context, args []string, stdout io.Writer) (int, error) {
				if args[0] == "backup" {
					makeWitnesses(ctx, t, bed.Nodes.Cluster(round.Source()).Stores())
					before = witnesses(bed, round.Source())
				}
				code, err := run(ctx, args, stdout)
				if args[0] == "restore" && code == 0 { // else there may be no cluster, and the round fails by itself
					after = witnesses(bed, round.Target())
				}
				return code, err
			}
		},
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, before, 3)
	require.Equal(t, before, after, "the restored regions have the same peers")
}

// makeWitnesses gives every second region a witness, in turn on another store.
func makeWitnesses(ctx context.Context, t *testing.T, stores []*tikvtest.Store) {
	t.Helper()
	for i, p := range stores[0].Peers() {
		if i%2 == 0 {
			assert.NoError(t, tikvtest.MakeWitness(ctx, p.Region.Id, stores[i/2%len(stores)], stores...))
		}
	}
}

// witnesses counts a cluster's regions that have one.
func witnesses(bed *testbed.Testbed, name cluster.Name) int {
	with := map[uint64]bool{}
	for _, s := range bed.Nodes.Cluster(name).Stores() {
		for _, p := range s.Peers() {
			for _, member := range p.Region.Peers {
				if member.IsWitness {
					with[p.Region.Id] = true
				}
			}
		}
	}
	return len(with)
}
