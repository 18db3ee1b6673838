package mishap

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// slowestApply is how long the first command of a merge or split takes at most until it is applied.
const slowestApply = 400 * time.Millisecond

// drawChurn draws merges and splits that begin just before the leases, when imports are denied already: their first
// command is proposed then, and applied under the lease.
func (s *Scene) drawChurn(r *rand.Rand) Mishap {
	n, number := r.IntN(3), r.IntN(1000)
	what, point, do := "a region splits", "tikv.*.Apply.BatchSplit", func() { s.split(number) }
	if r.IntN(3) > 0 {
		what, point, do = "a region merges", "tikv.*.Apply.PrepareMerge", func() { s.merge(n) }
	}
	delay := time.Duration(r.Int64N(int64(slowestApply)))
	return Mishap{
		What: fmt.Sprintf("%s just before the leases, and takes %s to be applied", what, delay.Round(time.Millisecond)),
		rules: []fault.Rule{
			{Point: "tikv.*.SuspendImportRPC", Nth: 1 + r.IntN(3), Position: fault.Slow, Times: 1, Do: do},
			{Point: point, Position: fault.Slow, Delay: delay, Times: 3},
		},
	}
}

// merge merges a region that store n leads into its right neighbour. A cluster of a single region has none.
func (s *Scene) merge(n int) {
	all := s.Cluster.Stores()
	for i := range all {
		store := all[(n+i)%len(all)]
		for _, p := range store.Peers() {
			if !p.Serving || len(p.Region.EndKey) == 0 {
				continue
			}
			for _, q := range store.Peers() {
				if string(q.Region.StartKey) == string(p.Region.EndKey) && store.Merge(s.ctx, p.Region.Id, q.Region.Id) == nil {
					return
				}
			}
		}
	}
}

// split splits a region at one of the accounts; under the lease it is refused, and so it is tried for 2 s at most.
func (s *Scene) split(number int) {
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		defer cancel()
		_ = tikvtest.SplitAt(ctx, s.Cluster.Stores(), fmt.Appendf(nil, "acct/%08d", number))
	})
}
