package testbed

import (
	"context"
	"math"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// CollectGarbage does what TiDB's GC worker and TiKV's compactions do: it raises PD's GC safe point to ts, or as far
// as the service safe points and the locks of all stores let it, and drops the versions that can no longer be
// read. Without it a cluster under load grows for ever. It returns the safe point.
func (c *Cluster) CollectGarbage(ctx context.Context, ts cluster.TS) (cluster.TS, error) {
	services, err := c.PD.UpdateServiceGCSafePoint(ctx, &pdpb.UpdateServiceGCSafePointRequest{
		ServiceId: []byte(gcWorker), TTL: math.MaxInt64, SafePoint: uint64(ts),
	})
	if err != nil {
		return 0, err
	}
	safe := services.GetMinSafePoint()
	stores := c.Stores()
	for _, s := range stores {
		if lock, found := s.OldestLock(); found {
			safe = min(safe, lock-1)
		}
	}
	answer, err := c.PD.UpdateGCSafePoint(ctx, &pdpb.UpdateGCSafePointRequest{SafePoint: safe})
	if err != nil {
		return 0, err
	}
	if answer.GetNewSafePoint() > safe { // it never goes back, and what is below it was dropped before
		return cluster.TS(answer.GetNewSafePoint()), nil
	}
	for _, s := range stores {
		if !gone(s) {
			s.CollectGarbage(safe)
		}
	}
	return cluster.TS(safe), nil
}
