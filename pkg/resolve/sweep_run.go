package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// sweepRun is the resolver as one sweep knows it.
type sweepRun struct {
	r     *Resolver
	asked bool // the sweep has asked for all regions before
}

var _ sweep.Run = (*sweepRun)(nil)

// Regions implements sweep.Run, which asks one question at a time. The first question for all regions is answered by what
// the last scan found, of the wait for leaders or of the sweep before: a route that is old by now is a call that is
// refused, and looked up then. PD takes seconds for a scan of a million regions.
func (s *sweepRun) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if len(keys.Start)+len(keys.End) > 0 {
		return s.r.pd.Regions(ctx, keys)
	}
	known := s.r.scanned
	if first := !s.asked; first && known != nil {
		s.asked = true
		return known, nil
	}
	s.asked = true
	regions, err := s.r.pd.Regions(ctx, keys)
	if err == nil {
		s.r.scanned = regions
	}
	return regions, err
}

// Address implements sweep.Run.
func (s *sweepRun) Address(store cluster.StoreID) string { return s.r.stores.address(store) }

// CheckHeld implements sweep.Run.
func (s *sweepRun) CheckHeld(ctx context.Context) error { return s.r.cfg.Fence.Check(ctx) }

// Lost implements sweep.Run.
func (s *sweepRun) Lost() bool { return s.r.cfg.Fence.Loss() != nil }

// Interrupted implements sweep.Run.
func (s *sweepRun) Interrupted() error { return s.r.interrupted() }

// AskAgain implements sweep.Run.
func (s *sweepRun) AskAgain(stores []cluster.StoreID) { s.r.askAgain(stores) }

// Resend implements sweep.Run.
func (s *sweepRun) Resend(ctx context.Context) error { return s.r.resend(ctx) }
