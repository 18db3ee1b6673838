package resolve

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// frozen are the limits that keep PD from moving leaders and peers of the recovering cluster. They work from
// the first moment, while a pause of schedulers that PD has not made yet is a silent no-op.
var frozen = map[string]any{
	"schedule.leader-schedule-limit":  0,
	"schedule.region-schedule-limit":  0,
	"schedule.replica-schedule-limit": 0,
	"schedule.merge-schedule-limit":   0,
}

// freezeTTL is how long PD stays frozen if the run dies; it is renewed at a third until thaw.
const freezeTTL = 10 * time.Minute

// freeze lowers PD's limits and keeps them, and the pauses of its schedulers, until thaw: the flashback of a
// large cluster takes longer than one TTL.
func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	if err := r.pd.SetTTLConfig(ctx, frozen, freezeTTL); err != nil {
		return failure.Annotate(err, "lower limits", r.cfg.Cluster.String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.unfreeze = cancel
	r.freezing.Go(func() { r.keepFrozen(base) })
	return nil
}

// keepFrozen renews until ctx ends. A failed renewal is tried again at the next turn, which is in time.
func (r *Resolver) keepFrozen(ctx context.Context) {
	ticker := time.NewTicker(freezeTTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := r.pd.SetTTLConfig(ctx, frozen, freezeTTL)
		if err == nil {
			_, err = r.renewPauses(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("PD's scheduling cannot be kept paused; trying again", zap.Error(err))
		}
	}
}

// renewPauses pauses every scheduler that PD lists for one TTL from now.
func (r *Resolver) renewPauses(ctx context.Context) (int, error) {
	list, err := r.pd.Schedulers(ctx)
	if err != nil {
		return 0, failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	for _, s := range list {
		if err := r.pd.PauseScheduler(ctx, s.Name, freezeTTL); err != nil {
			return 0, failure.Annotate(err, "pause scheduler", s.Name)
		}
	}
	return len(list), nil
}

// pauseSchedulers pauses by name what PD lists by now and reads it back; done is false while PD lists none.
func (r *Resolver) pauseSchedulers(ctx context.Context) (done bool, err error) {
	list, err := r.pd.Schedulers(ctx)
	if err != nil {
		return false, failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	for _, s := range list {
		if s.Paused {
			continue
		}
		if err := r.pd.PauseScheduler(ctx, s.Name, freezeTTL); err != nil {
			return false, failure.Annotate(err, "pause scheduler", s.Name)
		}
	}
	if list, err = r.pd.Schedulers(ctx); err != nil {
		return false, failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	for _, s := range list {
		if !s.Paused {
			return false, nil
		}
	}
	return len(list) > 0, nil
}

// thaw puts scheduling and GC back; it is the last act of a restore and the undo of a failed one.
// If another run took the cluster over, only the GC hold is this run's to end.
func (r *Resolver) thaw(ctx context.Context, _ *phase.Scope) error {
	if r.unfreeze != nil {
		r.unfreeze()
		r.freezing.Wait()
	}
	if r.lostToOther.Load() {
		return failure.Annotate(r.pd.ReleaseGC(ctx, r.service()), "release gc", r.cfg.Cluster.String())
	}
	list, err := r.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	for _, s := range list {
		if s.Paused {
			if err := r.pd.ResumeScheduler(ctx, s.Name); err != nil {
				return failure.Annotate(err, "resume scheduler", s.Name)
			}
		}
	}
	if err := r.pd.DropTTLConfig(ctx, slices.Sorted(maps.Keys(frozen))); err != nil {
		return failure.Annotate(err, "restore limits", r.cfg.Cluster.String())
	}
	return failure.Annotate(r.pd.ReleaseGC(ctx, r.service()), "release gc", r.cfg.Cluster.String())
}

// Thaw lets PD schedule again and releases GC. Call it when TiDB is up.
func (r *Resolver) Thaw(ctx context.Context, s *phase.Scope) error { return r.thaw(ctx, s) }
