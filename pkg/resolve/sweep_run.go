package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// sweepRun is the resolver as a sweep knows it.
type sweepRun struct{ r *Resolver }

var _ sweep.Run = sweepRun{}

// Regions implements sweep.Run.
func (s sweepRun) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	return s.r.pd.Regions(ctx, keys)
}

// Address implements sweep.Run.
func (s sweepRun) Address(store cluster.StoreID) string { return s.r.address(store) }

// CheckHeld implements sweep.Run.
func (s sweepRun) CheckHeld(ctx context.Context) error { return s.r.cfg.Fence.Check(ctx) }

// Lost implements sweep.Run.
func (s sweepRun) Lost() bool { return s.r.cfg.Fence.Lost() }

// Interrupted implements sweep.Run.
func (s sweepRun) Interrupted() error { return s.r.interrupted() }

// AskAgain implements sweep.Run.
func (s sweepRun) AskAgain(stores []cluster.StoreID) { s.r.askAgain(stores) }

// Resend implements sweep.Run.
func (s sweepRun) Resend(ctx context.Context) error { return s.r.resend(ctx) }
