package drill

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// connectWithin bounds the way to the SQL port of a TiDB that is ready.
	connectWithin   = 5 * time.Minute
	connectInterval = 2 * time.Second
)

// check makes the checks. What they find ends the run; the removal comes after it in any case.
func (r *run) check(ctx context.Context, s *phase.Scope) error {
	r.result.Checks = NotMade
	defer func() {
		if ctx.Err() != nil && r.result.Found == nil {
			r.result.Checks = NotRun // it is about the drill, and not about the data
		}
	}()
	target := r.made.targets[len(r.made.targets)-1]
	db, err := r.connect(ctx, target)
	if err != nil {
		return err
	}
	defer db.Close()
	if r.HoldGC != nil {
		if err := r.HoldGC(ctx, target.Cluster, target.Run, r.opts.Checks.Budget+time.Hour); err != nil {
			return failure.Annotate(err, "hold GC of the restored cluster", target.Cluster.String())
		}
	}
	if err := db.Rest(ctx); err != nil {
		s.Warn("TTL and automatic ANALYZE of the restored cluster stay on while it is checked: %v", err)
	}
	found, err := checks.Run(ctx, db, r.opts.Checks)
	if err != nil {
		return err
	}
	r.result.Found, r.result.Checks = found, stateOf(found.Outcome)
	s.Result(journal.ResultChecks, found)
	switch found.Outcome {
	case checks.Passed:
		return nil
	case checks.TimedOut:
		return failure.New(failure.Limited, "check", string(r.opts.Backup), "not all checks were done in time").
			WithHint("give more time by --budget, or check fewer tables")
	default:
		return failure.New(failure.Unproven, "check", string(r.opts.Backup), "%s", r.result.whyNot(nil))
	}
}

// connect waits until TiDB answers.
func (r *run) connect(ctx context.Context, target journal.DrillTarget) (db Database, err error) {
	bounded, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	err = wait.Until(bounded, wait.Every(connectInterval), func() (bool, error) {
		db, err = r.Open(bounded, target.Cluster)
		return err == nil || !failure.Transient(err), err
	})
	return db, failure.Annotate(wait.Reason(err), "connect to the restored cluster", target.Cluster.String())
}
