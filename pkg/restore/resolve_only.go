package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/runs"
)

// Resolve is the part of a restore after the volumes, for a cluster whose stores are up in recovery mode: it brings
// them to the backup's ts, takes them out of recovery mode and waits until TiDB serves. It resumes where a killed run
// stopped, and quickly finishes one that was nearly done. A serving cluster is refused. On a failure the cluster stays
// in recovery mode, for the next try.
//
// Deps' EBS and Options about volumes are not used.
func Resolve(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts, byOthers)
	about := journal.About{Operation: journal.Resolve, Request: r.opts.ResolveRequest()}
	r.identify(ctx, &about)
	err := r.execute(ctx, about, r.resolveSteps(), r.resolveResumption())
	return &r.result, r.conclude(err)
}

// ResolveRequest returns the options that determine a resolve, apart from the cluster and the backup.
func (o *Options) ResolveRequest() map[string]string {
	return map[string]string{"tolerate-store": fmt.Sprint(o.TolerateStores), "pd-state": string(o.PDState)}
}

// resolveResumption is how a resolve is resumed: all steps run again, and find done what was done. Nothing that an undo
// removes is needed for that.
func (r *run) resolveResumption() *runner.Resumption {
	return &runner.Resumption{
		Learn: func(h *phase.History, was *journal.About) error {
			r.earlier = readEarlier(h, was.Keep)
			return nil
		},
		StartOver: func(context.Context, *phase.History) (string, error) { return "", nil },
	}
}

// resolveSteps is the runbook of a resolve alone.
func (r *run) resolveSteps() []phase.Step {
	return repeated(
		r.findSteps(),
		[]phase.Step{r.runner.LockStep(phaseData, r.lockResolve)},
		mayBeLate(
			[]phase.Step{
				{Phase: phaseData, Name: stepRaiseTS, Deadline: 5 * time.Minute, Do: r.raiseTS, Retry: true},
				r.awaitStoresStep(phaseData),
				r.checkTasksStep(),
			},
			r.resolver.Steps(phaseData, r.asStoresCome(stepRaiseTS)),
			r.servingSteps(r.thawAll),
		),
		[]phase.Step{r.runner.UnlockStep(phaseTiDB)},
	)
}

// findSteps change nothing.
func (r *run) findSteps() []phase.Step {
	return []phase.Step{
		{
			Phase: phaseData, Name: "load", Deadline: 5 * time.Minute, Do: r.load, ReadOnly: true, Retry: true,
			Patience: preflight.Patience,
		},
		{
			Phase: phaseData, Name: "find-cluster", Deadline: 5 * time.Minute, Do: r.findCluster, ReadOnly: true,
			Retry: true, Patience: preflight.Patience,
		},
	}
}

// lockResolve acquires the cluster's lock and checks the cluster again: the lock's previous holder may have continued
// meanwhile.
func (r *run) lockResolve(ctx context.Context, s *phase.Scope) error {
	if r.opts.BreakLock {
		if err := r.breakLock(ctx, s); err != nil {
			return err
		}
	}
	if err := r.runner.Lock(ctx, s); err != nil {
		if failure.Is(err, failure.Conflict) && !r.opts.BreakLock {
			return failure.New(failure.Conflict, "resolve", r.opts.Target.String(), "%w", err).
				WithHint("end that run, or wait for it; if it is dead, run this again in a minute, when its lock is " +
					"taken over, or use --force")
		}
		return err
	}
	return r.findCluster(ctx, s)
}

// breakLock frees the lock of a run that the user knows to be dead.
func (r *run) breakLock(ctx context.Context, s *phase.Scope) error {
	lock, _, err := runlock.Read(ctx, r.Store, r.opts.Target)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	case !lock.Held(time.Now()):
		return nil
	}
	if err := runs.CheckOwner(ctx, r.Store, r.opts.Target, &journal.About{KubernetesUID: r.target.uid}); err != nil {
		return err
	}
	s.Note("the lock of %s is broken", lock.Owner)
	return runlock.Break(ctx, r.Store, r.opts.Target, lock.Epoch)
}

// thawAll releases what this run, and killed ones before it, hold in PD. This run has the lock, so no other run of this
// cluster is alive.
func (r *run) thawAll(ctx context.Context, s *phase.Scope) error {
	services, _, err := r.pd.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", r.opts.Target.String())
	}
	for _, p := range services {
		if resolve.IsService(p.Service) {
			if err := r.pd.ReleaseGC(ctx, p.Service); err != nil {
				return failure.Annotate(err, "release gc", p.Service)
			}
		}
	}
	return r.resolver.Thaw(ctx, s)
}

// ResolvePlan is what a resolve would do.
type ResolvePlan struct {
	Manifest *manifest.Manifest
	// Resolved means that the data is already at the backup ts, and only the end of the restore is missing; there is no
	// Plan then.
	Resolved bool
	Plan     plan.Summary
	Tasks    []string // log backups and changefeeds that run
}

// PlanResolve runs the checks of a resolve, reads what the stores have, and plans. It changes nothing. It returns a
// Conflict while another run has the cluster's lock, as it would disturb that run.
func PlanResolve(ctx context.Context, deps Deps, opts Options) (*ResolvePlan, error) {
	r := newRun(deps, opts, byOthers)
	out := &ResolvePlan{}
	err := r.runner.Check(ctx, slices.Concat(
		[]phase.Step{r.runner.StorageStep(phaseData)},
		r.findSteps(),
		[]phase.Step{
			r.lockIsFreeStep(),
			r.awaitStoresStep(phaseData),
		},
		r.resolver.PlanSteps(phaseData, r.resolverOptions()),
	)...)
	if err != nil {
		return nil, err
	}
	tasks, err := r.newTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		out.Tasks = append(out.Tasks, taskName(task))
	}
	out.Manifest, out.Resolved = r.backup.Manifest, r.data.resolved
	if plan := r.resolver.Plan(); plan != nil {
		out.Plan = plan.Summary()
	}
	return out, nil
}

func (r *run) lockIsFreeStep() phase.Step {
	return phase.Step{
		Phase: phaseData, Name: "lock-is-free", Deadline: 5 * time.Minute, Do: r.lockIsFree, ReadOnly: true,
	}
}

// lockIsFree returns a Conflict while a live run has the cluster's lock, which is watched as by a resolve that takes it
// over.
func (r *run) lockIsFree(ctx context.Context, s *phase.Scope) error {
	if r.opts.BreakLock {
		return nil
	}
	found, err := runlock.Watch(ctx, r.Store, r.opts.Target, r.opts.LockWait,
		func(held *runlock.Record) { s.Note("%s", held.Watching()) })
	if err != nil {
		return err
	}
	if found.Held(time.Now()) {
		return failure.New(failure.Conflict, "plan", r.opts.Target.String(), "%s holds the cluster's lock until %s",
			found.Record.Owner, found.Record.FreeAt().UTC().Format(time.RFC3339)).
			WithHint("wait for that run; if it is dead, run this again in a minute, or use --force")
	}
	return nil
}
