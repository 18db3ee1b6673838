package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/phase"
)

// observe finds the hold that another process has. It is proven after the cut, and never touched; with the
// proof of early apply that its process has begun, the same.
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
	h, left, err := r.findHold(ctx, s, targets)
	if err != nil {
		if h != nil {
			h.Disconnect()
		}
		return err
	}
	r.hold = h
	s.Note("the cluster is held by %s", h.Service())
	if !r.proving() {
		return nil
	}
	return r.adoptPublished(s, left)
}

// findHold finds the hold, and reads meanwhile what its process has left in PD for the proof of early apply.
func (r *run) findHold(ctx context.Context, s *phase.Scope, targets []hold.Target) (h *hold.Hold, left published, err error) {
	err = allOrFirst(ctx, []func(context.Context) error{
		func(ctx context.Context) (err error) {
			h, err = hold.Observe(ctx, hold.Config{
				Cluster: r.opts.Cluster, Stores: targets, Lease: r.opts.Lease, MaxHold: r.opts.MaxHold, Log: s.Log,
			}, r.PD, r.TiKV)
			return err
		},
		func(ctx context.Context) error {
			if r.proving() {
				left = r.readPublished(ctx)
			}
			return nil
		},
	}, func(ctx context.Context, find func(context.Context) error) error { return find(ctx) })
	return h, left, err
}
