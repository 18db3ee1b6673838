package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/freeze"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// sweeps calls all regions, in one sweep after the other.
type sweeps struct {
	cfg     *settings
	pd      pd.Members
	calls   *recovery
	freezer *freeze.Freezer

	scanned []cluster.Region // all regions as PD listed them last, which the sweeps own in turn; nil is not known
	retries int64            // calls that had to be sent again
}

// run makes one sweep, and returns it with what it has found.
func (w *sweeps) run(ctx context.Context, s *phase.Scope, cfg sweep.Config) (*sweep.Sweep, error) {
	cfg.Cluster, cfg.Stall, cfg.Log, cfg.Again = w.cfg.Cluster, w.cfg.Stall, w.cfg.log, w.cfg.resumeHint()
	one := sweep.New(cfg, &sweepRun{sweeps: w})
	err := one.Run(ctx, s)
	w.retries += one.Retries()
	return one, err
}

// check fails if what the run relies on is lost: another run recovers the cluster, or GC has passed the backup ts.
func (w *sweeps) check(ctx context.Context) error {
	w.freezer.PollGC(ctx)
	return w.interrupted()
}

// interrupted is check without a question to PD.
func (w *sweeps) interrupted() error {
	if err := w.calls.checkCalls(); err != nil {
		return err
	}
	return w.freezer.GCPassed()
}

// sweepRun is the run as one sweep knows it.
type sweepRun struct {
	*sweeps
	asked bool // the sweep has asked for all regions before
}

var _ sweep.Run = (*sweepRun)(nil)

// Regions implements sweep.Run, which asks one question at a time. The first question for all regions is answered by
// what the last scan found, of the wait for leaders or of the sweep before: a route that is old by now is a call that
// is refused, and looked up then. PD takes seconds for a scan of a million regions.
func (s *sweepRun) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if len(keys.Start)+len(keys.End) > 0 {
		return s.pd.Regions(ctx, keys)
	}
	if first := !s.asked; first && s.scanned != nil {
		s.asked = true
		return s.scanned, nil
	}
	s.asked = true
	regions, err := s.pd.Regions(ctx, keys)
	if err == nil {
		s.scanned = regions
	}
	return regions, err
}

// Address implements sweep.Run.
func (s *sweepRun) Address(store cluster.StoreID) string { return s.calls.stores.address(store) }

// CheckHeld implements sweep.Run.
func (s *sweepRun) CheckHeld(ctx context.Context) error { return s.cfg.Fence.Check(ctx) }

// Lost implements sweep.Run.
func (s *sweepRun) Lost() bool { return s.cfg.Fence.Loss() != nil }

// Interrupted implements sweep.Run.
func (s *sweepRun) Interrupted() error { return s.interrupted() }

// AskAgain implements sweep.Run.
func (s *sweepRun) AskAgain(stores []cluster.StoreID) { s.calls.askAgain(stores) }

// Resend implements sweep.Run.
func (s *sweepRun) Resend(ctx context.Context) error { return s.calls.resend(ctx) }
