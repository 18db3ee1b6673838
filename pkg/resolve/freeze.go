package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// frozen are the limits that keep PD from moving leaders and peers of the recovering cluster. They work from
// the first moment, while a pause of schedulers that PD has not made yet is a silent no-op.
var frozen = map[string]any{
	"schedule.leader-schedule-limit": 0,
	"schedule.region-schedule-limit": 0,
	replicaLimit:                     0,
	"schedule.merge-schedule-limit":  0,
}

// replicaLimit is how many replicas PD's checker makes at the same time.
const replicaLimit = "schedule.replica-schedule-limit"

const (
	// freezeTTL is how long PD stays frozen if the run dies; it is renewed at a third until thaw.
	freezeTTL = 10 * time.Minute
	// aheadTTL is how long PD's limits stay lowered then if a replica is ahead: PD must not copy it.
	aheadTTL = 7 * 24 * time.Hour
)

// How often PD's scheduling is polled: often until its coordinator has started and all its schedulers are paused,
// then now and then, because PD silently forgets pauses when its leader changes.
const (
	thawedInterval = 250 * time.Millisecond
	frozenInterval = 5 * time.Second
)

// freeze lowers PD's limits, reads them back, and keeps them, the pauses of its schedulers and the GC hold until
// thaw: the flashback of a large cluster takes longer than one TTL.
func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	r.ahead.Store(r.early.present())
	if err := r.lowerLimits(ctx); err != nil {
		return err
	}
	if r.unfreeze != nil {
		return nil // a second try of the step: what keeps it runs
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.unfreeze = cancel
	r.freezing.Go(func() { r.keepFrozen(base) })
	return nil
}

// lowerLimits overrides the limits for one TTL from now. PD answers with success also where it does nothing.
func (r *Resolver) lowerLimits(ctx context.Context) error {
	r.limiting.Lock()
	defer r.limiting.Unlock()
	limits, ttl := maps.Clone(frozen), freezeTTL
	if r.rebuilding.Load() {
		limits[replicaLimit] = rebuildAtOnce
	}
	if r.ahead.Load() {
		ttl = aheadTTL
	}
	if err := r.pd.SetTTLConfig(ctx, limits, ttl); err != nil {
		return failure.Annotate(err, "lower limits", r.cfg.Cluster.String())
	}
	inForce, err := r.pd.TTLConfig(ctx)
	if err != nil {
		return failure.Annotate(err, "read limits back", r.cfg.Cluster.String())
	}
	for _, item := range slices.Sorted(maps.Keys(limits)) {
		if inForce[item] != fmt.Sprint(limits[item]) {
			return failure.New(failure.Unknown, "lower limits", r.cfg.Cluster.String(), "PD took %s and has %q", item, inForce[item])
		}
	}
	return nil
}

// lastAnswers is how long thaw waits for the answers of pauses that are under way: one that is cancelled may be carried
// out all the same, after the scheduler has been resumed, and last for a whole TTL.
const lastAnswers = 2 * time.Second

// keepFrozen renews until ctx ends. What fails is tried again at the next poll, which is in time.
func (r *Resolver) keepFrozen(ctx context.Context) {
	renewed, pause := time.Now(), thawedInterval
	for wait.For(ctx, pause) == nil {
		done, err := r.keepOnce(ctx, &renewed)
		if pause = thawedInterval; done {
			pause = frozenInterval
		}
		if r.cfg.Fence.Loss() != nil {
			return // what is paused by now is another run's
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("PD's scheduling cannot be kept paused; trying again", zap.Error(err))
		}
	}
}

// keepOnce renews what is due, and pauses what runs; done says that nothing does. Its calls get their answers also if ctx
// ends meanwhile.
func (r *Resolver) keepOnce(ctx context.Context, renewed *time.Time) (done bool, err error) {
	ctx, release := wait.Outlive(ctx, lastAnswers)
	defer release()
	if time.Since(*renewed) > freezeTTL/3 {
		if err = r.renew(ctx); err == nil {
			*renewed = time.Now()
		}
	}
	done, pauseErr := r.pauseSchedulers(ctx)
	r.pollGC(ctx)
	return done, errors.Join(err, pauseErr)
}

// renew makes limits, pauses and the GC hold last for one TTL from now, unless another run has the cluster: its process
// may have been suspended.
func (r *Resolver) renew(ctx context.Context) error {
	if err := r.cfg.Fence.Check(ctx); err != nil {
		return err
	}
	if err := r.lowerLimits(ctx); err != nil {
		return err
	}
	list, err := r.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	for _, s := range list {
		if err := r.pd.PauseScheduler(ctx, s.Name, freezeTTL); err != nil {
			return failure.Annotate(err, "pause scheduler", s.Name)
		}
	}
	_, err = r.pd.HoldGC(ctx, r.service(), r.cfg.BackupTS, gcTTL)
	return failure.Annotate(err, "hold gc", r.cfg.Cluster.String())
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
		if err := r.cfg.Fence.Check(ctx); err != nil {
			return false, err
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

// thaw puts scheduling and GC back; it is the last act of a restore and the undo of a failed one. What cannot be put
// back does not keep it from the rest. While another run has the cluster, only the GC hold is this run's to end, and not
// even that if it is another process of this run. PD's limits stay lowered if a replica is ahead, for aheadTTL.
func (r *Resolver) thaw(ctx context.Context, _ *phase.Scope) error {
	if r.unfreeze != nil {
		r.unfreeze()
		r.freezing.Wait()
		r.unfreeze = nil
	}
	lost := r.taken(ctx) != nil
	if lost {
		switch r.cfg.Fence.Holder(ctx) {
		case fenced.HolderSameRun: // all of it is that process's
			return nil
		case fenced.HolderEndedRun: // so that it is this one's to end again
		case fenced.HolderUnknown, fenced.HolderThis, fenced.HolderOtherRun:
			return r.releaseGC(ctx)
		}
	}
	var errs []error
	for _, putBack := range []func(context.Context) error{r.resumeSchedulers, r.dropLimits, r.releaseGC} {
		if err := r.taken(ctx); err != nil && !lost { // the process may have been suspended in the call before
			return err
		}
		errs = append(errs, putBack(ctx))
	}
	return failure.Join(errs...)
}

func (r *Resolver) dropLimits(ctx context.Context) error {
	if r.early.present() {
		return nil
	}
	return failure.Annotate(r.pd.DropTTLConfig(ctx, slices.Sorted(maps.Keys(frozen))), "restore limits", r.cfg.Cluster.String())
}

func (r *Resolver) releaseGC(ctx context.Context) error {
	return failure.Annotate(r.pd.ReleaseGC(ctx, r.service()), "release gc", r.cfg.Cluster.String())
}

// resumeSchedulers resumes what PD lists as paused. One that PD does not have by now is not paused either: pauses are
// the leader's, and a new leader has none.
func (r *Resolver) resumeSchedulers(ctx context.Context) error {
	list, err := r.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", r.cfg.Cluster.String())
	}
	var errs []error
	for _, s := range list {
		if !s.Paused {
			continue
		}
		if err := r.pd.ResumeScheduler(ctx, s.Name); err != nil && !failure.Is(err, failure.NotFound) {
			errs = append(errs, failure.Annotate(err, "resume scheduler", s.Name))
		}
	}
	return failure.Join(errs...)
}

// Thaw lets PD schedule again, releases GC, and clears the progress: what is written to the cluster from now on
// must not be flashed back. Call it when TiDB is up. It is Conflict once another run has the cluster.
func (r *Resolver) Thaw(ctx context.Context, s *phase.Scope) error {
	if err := r.taken(ctx); err != nil {
		return err
	}
	if err := r.thaw(ctx, s); err != nil {
		return err
	}
	if err := r.taken(ctx); err != nil { // the progress is the other's by now
		return err
	}
	return failure.Annotate(r.cfg.Progress.Clear(ctx), "remove progress", r.cfg.Cluster.String())
}
