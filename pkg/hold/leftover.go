package hold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// releaseCaller is the name under which imports are resumed for dead runs.
const releaseCaller = servicePrefix + "release"

// DeadHolds is what dead runs held and is to be released. Safe points are recognized by name, leases and suspensions by
// place; paused schedulers and overridden limits by neither, so they are listed.
type DeadHolds struct {
	Cluster    cluster.Name
	Schedulers []string // paused by dead runs
	Limits     []string // overridden by dead runs
	// All resumes every paused scheduler and drops every override that a hold could have made, whoever made them.
	All bool
	// Expires is when everything that dead runs held on stores has expired, by any clock; zero if unknown. After that,
	// an unreachable store holds nothing of theirs.
	Expires time.Time
}

// Released lists what was released. Empty lists mean that nothing was held.
type Released struct {
	Schedulers []string          `json:"schedulers"`
	Limits     []string          `json:"limits"`
	SafePoints []string          `json:"safePoints"`
	Leases     []cluster.StoreID `json:"leases"`
	Imports    []cluster.StoreID `json:"imports"`
	// Kept are schedulers that stay paused because no dead run is known to have paused them.
	Kept []string `json:"kept"`
	// KeptLimits are overrides that stay for the same reason.
	KeptLimits []string `json:"keptLimits"`
	// Unreached are unreachable stores, on which a dead run's hold has expired.
	Unreached []cluster.StoreID `json:"unreached,omitempty"`
	// EarlyApply are stores whose early-apply limit was restored.
	EarlyApply []cluster.StoreID `json:"earlyApply,omitempty"`
}

// Any reports whether anything was released.
func (r *Released) Any() bool {
	return len(r.Schedulers)+len(r.Limits)+len(r.SafePoints)+len(r.Leases)+len(r.Imports)+len(r.EarlyApply) > 0
}

// ReleaseLeftovers releases what dead runs hold. It is idempotent. It takes over the stores' streams, which breaks a
// live run's hold: the caller must know that there is none. It waits seconds for a hanging store. Whatever could not be
// released is an error of kind Held, and everything else is released anyway; without PD, which knows the stores,
// nothing is. An unreachable store is Unreached rather than an error once everything there has expired
// (DeadHolds.Expires) and PD shows nothing that a tisnap hold renews.
func ReleaseLeftovers(ctx context.Context, what DeadHolds, p PD, t tikv.Holder) (*Released, error) {
	r := &leftovers{what: what, pd: p, tikv: t}
	status, err := Describe(ctx, p)
	if err != nil {
		return nil, r.held(err)
	}
	r.expired = !what.Expires.IsZero() && time.Now().After(what.Expires) && !renewed(status)
	stores, err := p.Stores(ctx)
	if err != nil {
		return nil, r.held(failure.Annotate(err, "list stores", what.Cluster.String()))
	}
	r.done = Released{
		Schedulers: []string{}, Limits: []string{}, SafePoints: []string{}, Kept: []string{}, KeptLimits: []string{},
		Leases: []cluster.StoreID{}, Imports: []cluster.StoreID{},
	}
	err = errors.Join(
		r.schedulers(ctx, status), r.limits(ctx, status), r.safePoints(ctx, status),
		parallel.Each(ctx, 0, stores, r.store),
	)
	slices.Sort(r.done.Leases)
	slices.Sort(r.done.Imports)
	slices.Sort(r.done.Unreached)
	if err != nil {
		err = r.held(err)
	}
	return &r.done, err
}

// held returns the error, with its remedy, for what could not be released.
func (r *leftovers) held(err error) error {
	hint := "run: tisnap release " + r.what.Cluster.String() +
		" --yes again when PD and all stores respond; leftovers expire on their own after the dead run's --lease"
	if time.Now().Before(r.what.Expires) {
		hint += "; from " + r.what.Expires.UTC().Format(time.RFC3339) + " a permanently dead store is skipped"
	}
	return &failure.Error{
		Op: "release", Target: "cluster " + r.what.Cluster.String(), Kind: failure.Held, Err: err,
		Hint: hint,
	}
}

// leftovers is one ReleaseLeftovers in progress.
type leftovers struct {
	what DeadHolds
	pd   PD
	tikv tikv.Holder
	// expired reports that an unreachable store holds nothing of a dead run.
	expired bool

	mu   sync.Mutex
	done Released
}

// renewed reports whether PD shows something that a tisnap hold renews together with its leases: a run without a
// journal, such as a pause, may be alive.
func renewed(s *Status) bool {
	return len(s.SafePoints) > 0 || slices.ContainsFunc(s.Limits, func(l Limit) bool { return l.Ours })
}

func (r *leftovers) schedulers(ctx context.Context, status *Status) error {
	var errs []error
	for _, s := range status.Schedulers {
		if !r.what.All && !slices.Contains(r.what.Schedulers, s.Name) {
			r.done.Kept = append(r.done.Kept, s.Name)
			continue
		}
		if err := r.pd.ResumeScheduler(ctx, s.Name); err != nil && !failure.Is(err, failure.NotFound) {
			errs = append(errs, failure.Annotate(err, "resume scheduler", s.Name))
			continue
		}
		r.done.Schedulers = append(r.done.Schedulers, s.Name)
	}
	return errors.Join(errs...)
}

func (r *leftovers) limits(ctx context.Context, status *Status) error {
	var items []string
	for _, l := range status.Limits {
		switch {
		case !l.Ours:
		case r.what.All || slices.Contains(r.what.Limits, l.Item):
			items = append(items, l.Item)
		default:
			r.done.KeptLimits = append(r.done.KeptLimits, l.Item)
		}
	}
	if len(items) == 0 {
		return nil
	}
	if err := r.pd.DropTTLConfig(ctx, items); err != nil {
		return failure.Annotate(err, "restore limits", r.what.Cluster.String())
	}
	r.done.Limits = append(r.done.Limits, items...)
	return nil
}

func (r *leftovers) safePoints(ctx context.Context, status *Status) error {
	var errs []error
	for _, p := range status.SafePoints {
		service := servicePrefix + string(p.Run)
		if err := r.pd.ReleaseGC(ctx, service); err != nil {
			errs = append(errs, failure.Annotate(err, "release gc", service))
			continue
		}
		r.done.SafePoints = append(r.done.SafePoints, service)
	}
	return errors.Join(errs...)
}

// leftoverLimit bounds the calls to one store: a hanging one must not keep a user, or a resumed run, waiting.
const leftoverLimit = 2 * minCall

// store ends the lease and the import suspension on one TiKV store, independently of each other.
func (r *leftovers) store(ctx context.Context, _ int, s pd.Store) error {
	if s.State == pd.StoreTombstone || !s.IsTiKV() {
		return nil
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, leftoverLimit)
	defer cancel()
	st := store{target: Target{ID: s.ID, Address: s.Address}}
	var leased, suspended bool
	var errs [2]error
	err := parallel.Each(ctx, 0, []func(context.Context) error{
		func(ctx context.Context) (err error) {
			leased, err = r.finish(ctx, &st)
			return err
		},
		func(ctx context.Context) (err error) {
			suspended, err = r.tikv.ResumeImport(ctx, s.Address, releaseCaller)
			return failure.Annotate(err, "resume imports", st.name())
		},
	}, func(ctx context.Context, i int, end func(context.Context) error) error {
		errs[i] = end(ctx)
		return errs[i]
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if leased {
		r.done.Leases = append(r.done.Leases, s.ID)
	}
	if suspended {
		r.done.Imports = append(r.done.Imports, s.ID)
	}
	// A caller that gave up did not wait for the store's answer, so its error does not count against the store.
	if r.expired && caller.Err() == nil && failure.Transient(err) && !slices.ContainsFunc(errs[:], answered) {
		r.done.Unreached = append(r.done.Unreached, s.ID)
		return nil
	}
	return err
}

// answered reports whether an error is an actual answer.
func answered(err error) bool { return err != nil && !failure.Transient(err) }

func (r *leftovers) finish(ctx context.Context, st *store) (leased bool, err error) {
	lease, err := r.tikv.OpenLease(ctx, st.target.Address)
	if err != nil {
		return false, failure.Annotate(err, "connect", st.name())
	}
	defer lease.Close()
	leased, err = lease.Finish(ctx)
	return leased, failure.Annotate(err, "finish lease", st.name())
}
