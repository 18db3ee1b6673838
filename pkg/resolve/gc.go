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
func (f *freezer) service() string { return servicePrefix + string(f.cfg.Run) }

// holdGC keeps the versions of the backup ts until TiDB is up.
func (f *freezer) holdGC(ctx context.Context) error {
	lowest, err := f.pd.HoldGC(ctx, f.service(), f.cfg.BackupTS, gcTTL)
	if err != nil {
		return failure.Annotate(err, "hold gc", f.cfg.Cluster.String())
	}
	if lowest > f.cfg.BackupTS {
		f.passed.Store(uint64(lowest))
		return f.gcPassed()
	}
	return nil
}

// pollGC remembers the GC safe point once it is above the backup ts. That PD does not answer is no failure: the next poll
// shows it.
func (f *freezer) pollGC(ctx context.Context) {
	_, gc, err := f.pd.SafePoints(ctx)
	if err == nil && gc > f.cfg.BackupTS {
		f.passed.Store(uint64(gc))
	}
}

// gcPassed fails once GC has passed the backup ts.
func (f *freezer) gcPassed() error {
	if gc := cluster.TS(f.passed.Load()); gc != 0 {
		return failure.New(failure.Corrupt, "hold gc", f.cfg.Cluster.String(),
			"the GC safe point %s is above the backup ts %s: versions of that time may be gone", gc, f.cfg.BackupTS).
			WithHint(hintGC)
	}
	return nil
}
