package resolve

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// ToRebuild lists the replicas that Rebuild rebuilds, as found by this run or the one that it resumes. It returns
// Corrupt if the latter did not look for them although the backup does not rule them out: they cannot be seen any more.
func (r *Resolver) ToRebuild(ctx context.Context) ([]Replica, error) {
	if r.cfg.NoneAhead {
		return nil, nil
	}
	if r.record.early == nil {
		found, err := r.foundBefore(ctx)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, nil // Thaw has cleared that run's progress, after Rebuild
		}
		r.record.knowEarly(found)
	}
	return r.record.early.Rebuild, nil
}

// Rebuild rebuilds the replicas whose data are ahead of the log, and waits until their regions have all their peers.
// Until then the cluster must not be used: such a replica serves no requests once elected, and later serves data
// written after the backup ts. Call it after the stores have left recovery mode and before Thaw; calling it again
// continues.
//
// Only replicas on the list are removed. PD creates none before all of them are gone, so that a new one is never
// created from one of them.
func (r *Resolver) Rebuild(ctx context.Context, s *phase.Scope) error {
	list, err := r.ToRebuild(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	limit := rebuildBase + time.Duration(len(list))*rebuildEach
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := r.freeze(ctx, s); err != nil { // a resumed run has not frozen anything yet
		return err
	}
	w := &rebuild{cfg: r.cfg, pd: r.pd, record: r.record, asked: map[cluster.PeerID]time.Time{}}
	if err := w.removeAll(ctx, s); err != nil {
		return err
	}
	return r.freezer.MakingReplicas(ctx, rebuildAtOnce, func() error {
		if err := w.all(ctx, s, w.missing); err != nil {
			return err
		}
		rebuilt := len(r.record.early.Affected)
		r.stats.rebuilt(rebuilt)
		s.Note("%d replicas are rebuilt", rebuilt)
		return nil
	})
}

// thaw restores scheduling and GC, at the end of a restore and in the undo of a failed one. PD's limits stay lowered if
// a replica is ahead.
func (r *Resolver) thaw(ctx context.Context, _ *phase.Scope) error {
	return r.freezer.Thaw(ctx, r.record.early.present())
}

// Thaw resumes PD's scheduling, releases GC, and clears the progress: what is written to the cluster from now on must
// not be flashed back. Call it when TiDB is up. It returns a Conflict if another run has the cluster.
func (r *Resolver) Thaw(ctx context.Context, s *phase.Scope) error {
	if err := r.freezer.Taken(ctx); err != nil {
		return err
	}
	if err := r.thaw(ctx, s); err != nil {
		return err
	}
	if err := r.freezer.Taken(ctx); err != nil { // the progress belongs to the other run by now
		return err
	}
	return r.record.clear(ctx)
}
