package resolve

import (
	"context"
	"maps"
	"slices"
	"time"

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

// freezeTTL is renewed by every pass over the schedulers; it ends by itself if the run dies.
const freezeTTL = 10 * time.Minute

func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	return failure.Annotate(r.pd.SetTTLConfig(ctx, frozen, freezeTTL), "lower limits", r.cfg.Cluster.String())
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
