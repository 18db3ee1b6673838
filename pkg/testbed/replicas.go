package testbed

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// AwaitEqualReplicas waits until the replicas of each region have applied the same, and returns how many they are. It is an
// error if two that have differ, or if ctx ends before. Clients read from leaders alone: a replica that has versions from
// after the backup ts, or lacks the flashback's, shows only once it leads. Where the leaders' rows are right and this
// returns none, no replica has.
func (c *Cluster) AwaitEqualReplicas(ctx context.Context) (n int, err error) {
	err = wait.Until(ctx, wait.Every(poll), func() (done bool, err error) {
		var behind error
		n, behind, err = compareReplicas(c.Stores())
		return err != nil || behind == nil, cmp.Or(err, behind)
	})
	return n, failure.Annotate(err, "wait for equal replicas", "")
}

// compareReplicas returns an error if two replicas that have applied the same differ, and behind while some have not.
func compareReplicas(stores []*tikvtest.Store) (n int, behind, err error) {
	first := map[uint64]tikvtest.Replica{}
	of := map[uint64]uint64{} // store of the first, by region
	for _, st := range stores {
		for _, r := range st.Replicas() {
			n++
			other, known := first[r.Region]
			switch {
			case !known:
				first[r.Region], of[r.Region] = r, st.ID()
			case other.Applied != r.Applied:
				behind = fmt.Errorf("region %d has applied index %d on store %d and %d on store %d",
					r.Region, other.Applied, of[r.Region], r.Applied, st.ID())
			case other.Sum != r.Sum:
				return n, nil, fmt.Errorf("the data of region %d at index %d differ on stores %d and %d",
					r.Region, r.Applied, of[r.Region], st.ID())
			}
		}
	}
	return n, behind, nil
}
