package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/phase"
)

// observe finds the hold that another process has. It is proven after the cut, and never touched.
func (r *run) observe(ctx context.Context, s *phase.Scope) error {
	r.result.Attempts++
	r.result.Hold, r.sets, r.backupTS = HoldTimes{}, newSets(), 0
	if err := r.awaitSpacing(ctx, s); err != nil {
		return err
	}
	targets, err := allTargets(ctx, r.PD, r.opts.Cluster)
	if err != nil {
		return err
	}
	s.Note("looking for the hold of another process")
	h, err := hold.Observe(ctx, hold.Config{
		Cluster: r.opts.Cluster, Stores: targets, Lease: r.opts.Lease, MaxHold: r.opts.MaxHold, Log: s.Log,
	}, r.PD, r.TiKV)
	if err != nil {
		return err
	}
	r.hold = h
	s.Note("the cluster is held by %s", h.Service())
	return nil
}
