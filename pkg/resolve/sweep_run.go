package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/freeze"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// sweeps runs one sweep over all regions after another.
type sweeps struct {
	cfg     *settings
	pd      pd.Members
	calls   *recovery
	freezer *freeze.Freezer

	scanned []cluster.Region // all regions as last listed by PD, owned by the sweeps in turn; nil if unknown
	retries int64            // repeated calls
}

// run runs one sweep, and returns it with its findings.
func (w *sweeps) run(ctx context.Context, s *phase.Scope, cfg sweep.Config) (*sweep.Sweep, error) {
	cfg.Cluster, cfg.Stall, cfg.Log, cfg.Again = w.cfg.Cluster, w.cfg.Stall, w.cfg.log, w.cfg.resumeHint()
	one := sweep.New(cfg, &sweepRun{sweeps: w})
	err := one.Run(ctx, s)
	w.retries += one.Retries()
	return one, err
}

// check fails if another run is recovering the cluster, or GC has passed the backup ts.
func (w *sweeps) check(ctx context.Context) error {
	w.freezer.PollGC(ctx)
	return w.interrupted()
}

// interrupted is check without a call to PD.
func (w *sweeps) interrupted() error {
	if err := w.calls.checkCalls(); err != nil {
		return err
	}
	return w.freezer.GCPassed()
}

// sweepRun is the run as seen by one sweep.
type sweepRun struct {
	*sweeps
	asked bool // the sweep has asked for all regions before
}

var _ sweep.Run = (*sweepRun)(nil)

// Regions implements sweep.Run, which makes one call at a time. The first call for all regions returns the result of
// the last scan, by the wait for leaders or the previous sweep: a call by an outdated route is refused, and then looked
// up. A scan of a million regions takes PD seconds.
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
