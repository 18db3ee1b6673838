package freeze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/wait"
)

// frozen are the limits that keep PD from moving leaders and peers of the recovering cluster. They take effect at once,
// while pausing schedulers that PD has not created yet is a silent no-op.
var frozen = map[string]any{
	"schedule.leader-schedule-limit": 0,
	"schedule.region-schedule-limit": 0,
	replicaLimit:                     0,
	"schedule.merge-schedule-limit":  0,
}

// replicaLimit is how many replicas PD's checker creates concurrently.
const replicaLimit = "schedule.replica-schedule-limit"

const (
	// freezeTTL is how long PD stays frozen if the run dies; it is renewed at a third until Thaw.
	freezeTTL = 10 * time.Minute
	// aheadTTL is how long PD's limits then stay lowered if a replica is ahead: PD must not copy it.
	aheadTTL = 7 * 24 * time.Hour
)

// How often PD's scheduling is polled: often until its coordinator has started and all schedulers are paused, then less
// often, because PD silently forgets pauses when its leader changes.
const (
	thawedInterval = 250 * time.Millisecond
	frozenInterval = 5 * time.Second
)

// Config identifies the cluster and the run.
type Config struct {
	Cluster  cluster.Name
	Service  string     // the run's name among PD's GC safe points
	BackupTS cluster.TS // whose versions GC must keep
	PD       PD
	Fence    fenced.Fence
	Log      *zap.Logger
}

// PD is what freezing needs from the placement driver.
type PD interface {
	pd.Scheduling
	pd.GC
}

// Freezer keeps PD frozen. Freeze, MakingReplicas and Thaw must not be called concurrently.
type Freezer struct {
	cfg Config

	stop    context.CancelFunc // ends the renewal; nil while there is none
	renewal sync.WaitGroup

	replicas atomic.Int64 // how many PD may create at once
	ahead    atomic.Bool  // keeps PD frozen for long
	limiting sync.Mutex   // one change of the limits at a time

	passed atomic.Uint64 // the GC safe point, once it is above the backup ts
}

// New makes a freezer, which does nothing yet.
func New(cfg Config) *Freezer { return &Freezer{cfg: cfg} }

// Freeze lowers PD's limits, reads them back, and renews them, the pauses of its schedulers and the GC hold until Thaw.
// ahead means that a replica is ahead of its log. Calling it again lowers the limits again.
func (f *Freezer) Freeze(ctx context.Context, ahead bool) error {
	f.ahead.Store(ahead)
	if err := f.lowerLimits(ctx); err != nil {
		return err
	}
	if f.stop != nil {
		return nil // the step is retried: the renewal is running
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = cancel
	f.renewal.Go(func() { f.keepFrozen(base) })
	return nil
}

// lowerLimits overrides the limits for one TTL from now. PD reports success even if it does nothing.
func (f *Freezer) lowerLimits(ctx context.Context) error {
	f.limiting.Lock()
	defer f.limiting.Unlock()
	limits, ttl := maps.Clone(frozen), freezeTTL
	limits[replicaLimit] = f.replicas.Load()
	if f.ahead.Load() {
		ttl = aheadTTL
	}
	if err := f.cfg.PD.SetTTLConfig(ctx, limits, ttl); err != nil {
		return failure.Annotate(err, "lower limits", f.cfg.Cluster.String())
	}
	inForce, err := f.cfg.PD.TTLConfig(ctx)
	if err != nil {
		return failure.Annotate(err, "read limits back", f.cfg.Cluster.String())
	}
	for _, item := range slices.Sorted(maps.Keys(limits)) {
		if inForce[item] != fmt.Sprint(limits[item]) {
			return failure.New(failure.Unknown, "lower limits", f.cfg.Cluster.String(), "PD took %s and has %q", item,
				inForce[item])
		}
	}
	return nil
}

// lastAnswers is how long Thaw waits for the answers of pauses in flight: PD may execute a cancelled one after the
// scheduler was resumed, and it would last for a whole TTL.
const lastAnswers = 2 * time.Second

// keepFrozen renews until ctx ends. What fails is retried at the next poll, which is in time.
func (f *Freezer) keepFrozen(ctx context.Context) {
	renewed, pause := time.Now(), thawedInterval
	for wait.For(ctx, pause) == nil {
		done, err := f.keepOnce(ctx, &renewed)
		if pause = thawedInterval; done {
			pause = frozenInterval
		}
		if f.cfg.Fence.Loss() != nil {
			return // what is paused now belongs to another run
		}
		if err != nil && ctx.Err() == nil {
			f.cfg.Log.Warn("PD's scheduling cannot be kept paused; trying again", zap.Error(err))
		}
	}
}

// keepOnce renews what is due and pauses running schedulers; done means that none is running. Its calls get their
// answers even if ctx ends meanwhile.
func (f *Freezer) keepOnce(ctx context.Context, renewed *time.Time) (done bool, err error) {
	ctx, release := wait.Outlive(ctx, lastAnswers)
	defer release()
	if time.Since(*renewed) > freezeTTL/3 {
		if err = f.renew(ctx); err == nil {
			*renewed = time.Now()
		}
	}
	done, pauseErr := f.pauseSchedulers(ctx)
	f.PollGC(ctx)
	return done, errors.Join(err, pauseErr)
}

// renew extends limits, pauses and the GC hold to one TTL from now, unless another run has the cluster: this process
// may have been suspended.
func (f *Freezer) renew(ctx context.Context) error {
	if err := f.cfg.Fence.Check(ctx); err != nil {
		return err
	}
	if err := f.lowerLimits(ctx); err != nil {
		return err
	}
	list, err := f.cfg.PD.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", f.cfg.Cluster.String())
	}
	for _, s := range list {
		if err := f.cfg.PD.PauseScheduler(ctx, s.Name, freezeTTL); err != nil {
			return failure.Annotate(err, "pause scheduler", s.Name)
		}
	}
	_, err = f.cfg.PD.HoldGC(ctx, f.cfg.Service, f.cfg.BackupTS, gcTTL)
	return failure.Annotate(err, "hold gc", f.cfg.Cluster.String())
}

// pauseSchedulers pauses by name the schedulers that PD lists, and reads them back; done is false while PD lists none.
func (f *Freezer) pauseSchedulers(ctx context.Context) (done bool, err error) {
	list, err := f.cfg.PD.Schedulers(ctx)
	if err != nil {
		return false, failure.Annotate(err, "list schedulers", f.cfg.Cluster.String())
	}
	for _, s := range list {
		if s.Paused {
			continue
		}
		if err := f.cfg.Fence.Check(ctx); err != nil {
			return false, err
		}
		if err := f.cfg.PD.PauseScheduler(ctx, s.Name, freezeTTL); err != nil {
			return false, failure.Annotate(err, "pause scheduler", s.Name)
		}
	}
	if list, err = f.cfg.PD.Schedulers(ctx); err != nil {
		return false, failure.Annotate(err, "list schedulers", f.cfg.Cluster.String())
	}
	for _, s := range list {
		if !s.Paused {
			return false, nil
		}
	}
	return len(list) > 0, nil
}

// Taken returns a Conflict if another run has the cluster by now, which a suspended process may not have noticed.
func (f *Freezer) Taken(ctx context.Context) error {
	_ = f.cfg.Fence.Check(ctx) // records it; if it cannot be read nothing stays frozen
	return f.cfg.Fence.Loss()
}

// Thaw restores scheduling and GC. If a part fails the rest is still restored. If another run has the cluster, only the
// GC hold is this run's to release, and not even that if it is another process of this run. If a replica is ahead, PD's
// limits stay lowered for aheadTTL.
func (f *Freezer) Thaw(ctx context.Context, ahead bool) error {
	if f.stop != nil {
		f.stop()
		f.renewal.Wait()
		f.stop = nil
	}
	lost := f.Taken(ctx) != nil
	if lost {
		switch f.cfg.Fence.Holder(ctx) {
		case fenced.HolderSameRun: // all of it belongs to that process
			return nil
		case fenced.HolderEndedRun: // so this process may release it again
		case fenced.HolderUnknown, fenced.HolderThis, fenced.HolderOtherRun:
			return f.releaseGC(ctx)
		}
	}
	var errs []error
	acts := []func(context.Context) error{f.resumeSchedulers, f.releaseGC}
	if !ahead {
		acts = slices.Insert(acts, 1, f.dropLimits)
	}
	for _, putBack := range acts {
		if err := f.Taken(ctx); err != nil && !lost { // the process may have been suspended during the previous call
			return err
		}
		errs = append(errs, putBack(ctx))
	}
	return failure.Join(errs...)
}

func (f *Freezer) dropLimits(ctx context.Context) error {
	return failure.Annotate(f.cfg.PD.DropTTLConfig(ctx, slices.Sorted(maps.Keys(frozen))), "restore limits",
		f.cfg.Cluster.String())
}

func (f *Freezer) releaseGC(ctx context.Context) error {
	return failure.Annotate(f.cfg.PD.ReleaseGC(ctx, f.cfg.Service), "release gc", f.cfg.Cluster.String())
}

// resumeSchedulers resumes the schedulers that PD lists as paused. Any other is not paused: pauses live in PD's leader,
// and a new leader has none.
func (f *Freezer) resumeSchedulers(ctx context.Context) error {
	list, err := f.cfg.PD.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", f.cfg.Cluster.String())
	}
	var errs []error
	for _, s := range list {
		if !s.Paused {
			continue
		}
		if err := f.cfg.PD.ResumeScheduler(ctx, s.Name); err != nil && !failure.Is(err, failure.NotFound) {
			errs = append(errs, failure.Annotate(err, "resume scheduler", s.Name))
		}
	}
	return failure.Join(errs...)
}

// MakingReplicas lets PD create atOnce replicas at a time while do runs: none that is ahead of its log may be left.
func (f *Freezer) MakingReplicas(ctx context.Context, atOnce int64, do func() error) error {
	f.ahead.Store(false)
	f.replicas.Store(atOnce)
	err := f.lowerLimits(ctx)
	if err == nil {
		err = do()
	}
	f.replicas.Store(0)
	if err != nil {
		return err
	}
	return f.lowerLimits(ctx)
}

// CheckKept fails if ahead, the number of replicas ahead of their logs, is not 0 and PD's limits were not kept at 0
// since they were found: PD may have copied one to another store, where it is not recognized.
func (f *Freezer) CheckKept(ctx context.Context, ahead int) error {
	inForce, err := f.cfg.PD.TTLConfig(ctx)
	if err != nil {
		return failure.Annotate(err, "read limits", f.cfg.Cluster.String())
	}
	for _, item := range slices.Sorted(maps.Keys(frozen)) {
		if inForce[item] != fmt.Sprint(frozen[item]) {
			return failure.New(failure.Corrupt, "look for replicas ahead of their logs", f.cfg.Cluster.String(),
				"%d replicas are ahead, and PD's %s was not 0 since they were found: PD may have copied them", ahead,
				item).
				WithHint("restore again onto fresh volumes")
		}
	}
	return nil
}
