package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// How long a resolved ts that can become the backup ts is waited for inside the hold at most, and how often it is read.
const (
	maxTSWait      = 15 * time.Second
	tsPollInterval = 200 * time.Millisecond
)

// readTS reads the backup ts inside the hold and before the cut, so that everything at or below it is in the
// logs that are cut. It is not below any that the run has read before, and nothing at or below it is locked.
func (r *run) readTS(ctx context.Context, s *phase.Scope) error {
	err := r.hold.Under(ctx, func(ctx context.Context) error { return r.awaitBackupTS(ctx, s) })
	if err != nil {
		return err
	}
	s.Note("backup ts %s (%s)", r.backupTS, r.backupTS.Time().Format(time.RFC3339Nano))
	s.Result(journal.ResultBackupTS, journal.BackupTS{TS: r.backupTS})
	return nil
}

func (r *run) awaitBackupTS(ctx context.Context, s *phase.Scope) error {
	limit := min(maxTSWait, r.opts.MaxHold/4)
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var unready error
	for {
		got, why, err := r.tryTS(waiting, s)
		switch {
		case err != nil && waiting.Err() != nil && ctx.Err() == nil && unready != nil: // the wait ended in a call
		case err != nil:
			return err
		case why == nil:
			r.backupTS = got
			return r.hold.CoversTS(got)
		case unready == nil:
			s.Note("waiting for a newer resolved ts: %v", why)
			fallthrough
		default:
			unready = why
		}
		if wait.For(waiting, tsPollInterval) == nil {
			continue
		}
		if ctx.Err() != nil {
			return failure.Annotate(context.Cause(ctx), "read backup ts", r.opts.Cluster.String())
		}
		return failure.New(failure.Limited, "read backup ts", r.opts.Cluster.String(), "not within %s: %w", limit, unready).
			WithHint("%s", failure.HintOf(unready))
	}
}

// tryTS reads the resolved ts. unready says why it cannot be the backup ts yet.
func (r *run) tryTS(ctx context.Context, s *phase.Scope) (ts cluster.TS, unready, err error) {
	got, err := r.PD.ResolvedTS(ctx)
	if err != nil {
		return 0, nil, failure.Annotate(err, "read resolved ts", r.opts.Cluster.String())
	}
	if unready = r.checkForward(got.TS, s); unready != nil {
		return 0, unready, nil
	}
	if err := preflight.CheckResolvedTS(ctx, r.PD, r.opts.Cluster, got, r.rules); err != nil {
		return 0, nil, err
	}
	err = r.hold.CheckLocks(ctx, got.TS, r.regions)
	if failure.Is(err, failure.Unready) {
		return 0, err, nil
	}
	return got.TS, nil, err
}

// checkForward refuses a resolved ts below an earlier one of this run: what was resolved once stays resolved, so PD has
// gone back, as after a change of its leader.
func (r *run) checkForward(ts cluster.TS, s *phase.Scope) error {
	if ts >= r.highestTS {
		r.highestTS = ts
		return nil
	}
	s.Warn("PD's resolved ts went back from %s (%s) to %s (%s)", r.highestTS, r.highestTS.Time(), ts, ts.Time())
	return failure.New(failure.Unready, "read resolved ts", r.opts.Cluster.String(), "PD went back to %s (%s) from %s (%s), which this run has read before",
		ts, ts.Time(), r.highestTS, r.highestTS.Time()).
		WithHint("find out whether PD's leader changed or its clock went back; run it again once the resolved ts has passed the earlier one")
}
