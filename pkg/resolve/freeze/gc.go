package freeze

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// gcTTL is how long GC stays held if the run dies. It is renewed while the run lives.
const gcTTL = 24 * time.Hour

// HoldGC keeps the backup ts' versions until TiDB is up.
func (f *Freezer) HoldGC(ctx context.Context) error {
	lowest, err := f.cfg.PD.HoldGC(ctx, f.cfg.Service, f.cfg.BackupTS, gcTTL)
	if err != nil {
		return failure.Annotate(err, "hold gc", f.cfg.Cluster.String())
	}
	if lowest > f.cfg.BackupTS {
		f.passed.Store(uint64(lowest))
		return f.GCPassed()
	}
	return nil
}

// PollGC records the GC safe point once it is above the backup ts. It ignores a PD that does not answer: the next poll
// shows it.
func (f *Freezer) PollGC(ctx context.Context) {
	_, gc, err := f.cfg.PD.SafePoints(ctx)
	if err == nil && gc > f.cfg.BackupTS {
		f.passed.Store(uint64(gc))
	}
}

// GCPassed fails once GC has passed the backup ts.
func (f *Freezer) GCPassed() error {
	if gc := cluster.TS(f.passed.Load()); gc != 0 {
		return failure.New(failure.Corrupt, "hold gc", f.cfg.Cluster.String(),
			"the GC safe point %s is above the backup ts %s: versions of that time may be gone", gc, f.cfg.BackupTS).
			WithHint("restore into a new cluster, and let nothing but the restore use it until it is done")
	}
	return nil
}
