package resolve

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// servicePrefix begins the names of the GC safe points that runs of tisnap hold.
const servicePrefix = "tisnap-"

// IsService reports whether a GC safe point of this name is a run's of tisnap.
func IsService(name string) bool { return strings.HasPrefix(name, servicePrefix) }

// Done reports whether the whole key space of the cluster was flashed back to the backup ts.
func (p *Progress) Done(clusterID uint64, backupTS cluster.TS) bool {
	return p.suits(clusterID, backupTS) && newCoverage(p.Flashed...).contains(cluster.KeyRange{})
}

// Yield says that another run may have the cluster: nothing that is set in PD is this one's to end any more.
func (r *Resolver) Yield() { r.lostToOther.Store(true) }

// Reclaim takes Yield back: the other run has ended.
func (r *Resolver) Reclaim() { r.lostToOther.Store(false) }

// TakenOver reports whether another run recovers the cluster, or may.
func (r *Resolver) TakenOver() bool { return r.lostToOther.Load() }

// stillOurs is Config.StillOurs. A Conflict is noted, so that the sweep ends with it.
func (r *Resolver) stillOurs(ctx context.Context) error {
	err := r.cfg.StillOurs(ctx)
	if failure.Is(err, failure.Conflict) {
		r.lostToOther.Store(true)
	}
	return err
}

// Plan is what the step "plan" made; nil before it.
func (r *Resolver) Plan() *Plan { return r.plan }
