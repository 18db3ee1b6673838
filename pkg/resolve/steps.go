package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// freeze lowers PD's limits, reads them back, and keeps them, the pauses of its schedulers and the GC hold until
// thaw: the flashback of a large cluster takes longer than one TTL.
func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	return r.freezer.freeze(ctx, r.early.present())
}

// thaw puts scheduling and GC back; it is the last act of a restore and the undo of a failed one. PD's limits stay lowered
// if a replica is ahead.
func (r *Resolver) thaw(ctx context.Context, _ *phase.Scope) error {
	return r.freezer.thaw(ctx, r.early.present())
}

// Thaw lets PD schedule again, releases GC, and clears the progress: what is written to the cluster from now on
// must not be flashed back. Call it when TiDB is up. It is Conflict once another run has the cluster.
func (r *Resolver) Thaw(ctx context.Context, s *phase.Scope) error {
	if err := r.cfg.taken(ctx); err != nil {
		return err
	}
	if err := r.thaw(ctx, s); err != nil {
		return err
	}
	if err := r.cfg.taken(ctx); err != nil { // the progress is the other's by now
		return err
	}
	return failure.Annotate(r.cfg.Progress.Clear(ctx), "remove progress", r.cfg.Cluster.String())
}

// checkGC fails if what the run relies on is lost: another run recovers the cluster, or GC has passed the backup ts.
func (r *Resolver) checkGC(ctx context.Context) error {
	r.freezer.pollGC(ctx)
	return r.interrupted()
}

// interrupted is checkGC without a question to PD.
func (r *Resolver) interrupted() error {
	if err := r.checkCalls(); err != nil {
		return err
	}
	return r.freezer.gcPassed()
}
