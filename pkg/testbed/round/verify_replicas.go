package round

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// replicaPoll is how often stores that still apply are looked at.
const replicaPoll = 20 * time.Millisecond

// verifyReplicas checks each store's own data: clients read from leaders alone, and a replica that has versions from after
// the backup ts, or lacks the flashback's, shows only once it leads. Equal to the leaders', whose rows are checked, none has.
func (s *state) verifyReplicas(ctx context.Context, c *testbed.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for {
		n, behind, err := compareReplicas(c.Stores())
		if err != nil {
			return err
		}
		if behind == nil {
			s.passed("%d replicas have the data of their region's leader", n)
			return nil
		}
		if err := wait.For(ctx, replicaPoll); err != nil {
			return fmt.Errorf("wait for equal replicas: %w: %w", err, behind)
		}
	}
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
