package resolve

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// gcTTL is how long GC is held back if the run dies. It is renewed while the run lives.
const gcTTL = 24 * time.Hour

// service is the run's name among PD's GC safe points.
func (r *Resolver) service() string { return servicePrefix + string(r.cfg.Run) }

// holdGC keeps the versions of the backup ts until TiDB is up.
func (r *Resolver) holdGC(ctx context.Context) error {
	lowest, err := r.pd.HoldGC(ctx, r.service(), r.cfg.BackupTS, gcTTL)
	if err != nil {
		return failure.Annotate(err, "hold gc", r.cfg.Cluster.String())
	}
	if lowest > r.cfg.BackupTS {
		r.passed.Store(uint64(lowest))
		return r.interrupted()
	}
	return nil
}

// checkGC fails if GC has passed the backup ts. That PD does not answer is no failure: the next poll shows it.
func (r *Resolver) checkGC(ctx context.Context) error {
	r.pollGC(ctx)
	return r.interrupted()
}

// pollGC remembers the GC safe point once it is above the backup ts.
func (r *Resolver) pollGC(ctx context.Context) {
	_, gc, err := r.pd.SafePoints(ctx)
	if err == nil && gc > r.cfg.BackupTS {
		r.passed.Store(uint64(gc))
	}
}

// interrupted fails when what the run relies on is lost: another run recovers the cluster, or GC has passed.
func (r *Resolver) interrupted() error {
	if err := r.checkCalls(); err != nil {
		return err
	}
	if gc := cluster.TS(r.passed.Load()); gc != 0 {
		return failure.New(failure.Corrupt, "hold gc", r.cfg.Cluster.String(),
			"the GC safe point %s is above the backup ts %s: versions of that time may be gone", gc, r.cfg.BackupTS).
			WithHint(hintGC)
	}
	return nil
}
