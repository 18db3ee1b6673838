package restore

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/runlock"

	"go.uber.org/zap"
)

// Resolve does the part of a restore that comes after the volumes, for a cluster whose stores are up in recovery
// mode: it brings them to the backup's ts, takes them out of recovery mode and waits until TiDB serves. It goes
// on where a run that was killed stopped, and ends at once what another one had all but finished. A cluster that
// serves is refused. On a failure the cluster stays in recovery mode, for the next try.
//
// Of Deps, EBS is not used; of Options, those about volumes are not.
func Resolve(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := newTask(deps, opts)
	t.cancel = cancel
	engine := phase.New(phase.Config{
		Fresh:   true,
		Run:     opts.Run,
		Journal: phase.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    t.Sink,
		Log:     t.Log,
		About:   journal.About{Operation: journal.Resolve, Cluster: opts.Target, Backup: opts.Backup, Tool: opts.Tool},
	})
	t.result.Started = time.Now().UTC()
	err := engine.Run(ctx, t.fenced(t.resolveSteps()))
	t.result.Finished = time.Now().UTC()
	t.result.Timings = engine.Timings()
	t.result.Manifest = t.manifest
	t.result.Resolve = t.resolver.Stats()
	return &t.result, err
}

// newTask fills in the defaults that a resolve alone needs.
func newTask(deps Deps, opts Options) *task {
	if opts.Timeout == 0 {
		opts.Timeout = time.Hour
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	return &task{
		Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store}, cancel: func(error) {},
		resolver: resolve.New(deps.TiKV, deps.Log), existing: true,
		fence: runlock.NewFence(deps.Store, opts.Target, opts.Owner),
	}
}

// resolveSteps is the runbook of a resolve alone.
func (t *task) resolveSteps() []phase.Step {
	wait := t.opts.Timeout
	steps := []phase.Step{
		{Phase: phaseData, Name: "load", Deadline: 5 * time.Minute, Do: t.load, ReadOnly: true},
		{Phase: phaseData, Name: "find-cluster", Deadline: 5 * time.Minute, Do: t.findCluster, ReadOnly: true},
		{Phase: phaseData, Name: journal.StepLock, Deadline: time.Minute, Do: t.lockResolve, Undo: t.dropLock},
		{Phase: phaseData, Name: "raise-ts", Deadline: 5 * time.Minute, Do: t.raiseTS, Retry: true},
		{Phase: phaseData, Name: "await-stores", Deadline: wait, Do: t.awaitStores},
		{Phase: phaseData, Name: "check-tasks", Deadline: 5 * time.Minute, Do: t.checkTasks, Retry: true},
	}
	for _, step := range t.resolver.Steps(phaseData) {
		steps = append(steps, t.unlessResolved(step))
	}
	return append(steps,
		phase.Step{Phase: phaseTiDB, Name: "check-tasks-again", Deadline: 5 * time.Minute, Do: t.checkTasksAgain, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "leave-recovery", Deadline: 10 * time.Minute, Do: t.leaveRecovery, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "await-restart", Deadline: wait, Do: t.awaitRestart},
		phase.Step{Phase: phaseTiDB, Name: journal.StepAwaitLeaders, Deadline: wait, Do: t.awaitLeaders, Ends: []string{journal.StepRecover}},
		phase.Step{Phase: phaseTiDB, Name: "await-tidb", Deadline: wait, Do: t.awaitTiDB},
		phase.Step{Phase: phaseTiDB, Name: "thaw", Deadline: 5 * time.Minute, Do: t.thawAll, Ends: []string{journal.StepFreezeScheduling}, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "unlock", Deadline: time.Minute, Do: t.unlock, Ends: []string{journal.StepLock}},
	)
}

// unlessResolved skips what a run before this one has finished.
func (t *task) unlessResolved(step phase.Step) phase.Step {
	do := step.Do
	step.Do = func(ctx context.Context, s *phase.Scope) error {
		if t.resolved {
			return nil
		}
		return do(ctx, s)
	}
	return step
}

// lockResolve takes the cluster's lock and looks again: the run that held it may have gone on meanwhile.
func (t *task) lockResolve(ctx context.Context, s *phase.Scope) error {
	if t.opts.BreakLock {
		if err := t.breakLock(ctx, s); err != nil {
			return err
		}
	}
	if err := t.takeLock(ctx, s); err != nil {
		if failure.Is(err, failure.Conflict) && !t.opts.BreakLock {
			return failure.New(failure.Conflict, "resolve", t.opts.Target.String(), "%w", err).
				WithHint("end that run, or wait for it; if it is dead, use --force or wait until its lock expires")
		}
		return err
	}
	return t.findCluster(ctx, s)
}

// breakLock frees the lock of a run that a person knows to be dead.
func (t *task) breakLock(ctx context.Context, s *phase.Scope) error {
	lock, _, err := runlock.Read(ctx, t.Store, t.opts.Target)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	case !lock.Held(time.Now()):
		return nil
	}
	s.Note("the lock of %s is broken", lock.Owner)
	return runlock.Break(ctx, t.Store, t.opts.Target, lock.Epoch)
}

// thawAll ends what this run, and those that were killed before it, hold in PD. The lock is ours: no other run
// of this cluster is alive.
func (t *task) thawAll(ctx context.Context, s *phase.Scope) error {
	services, _, err := t.pd.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", t.opts.Target.String())
	}
	for _, p := range services {
		if resolve.IsService(p.Service) {
			if err := t.pd.ReleaseGC(ctx, p.Service); err != nil {
				return failure.Annotate(err, "release gc", p.Service)
			}
		}
	}
	return t.resolver.Thaw(ctx, s)
}

// ResolvePlan is what a resolve would do.
type ResolvePlan struct {
	Manifest *manifest.Manifest
	// Resolved says that the data are at the backup ts already, and that only the end of the restore is
	// missing; there is no Plan then.
	Resolved bool
	Plan     plan.Summary
	Tasks    []string // log backups and changefeeds that run
}

// PlanResolve does the checks of a resolve, asks the stores for what they hold, and plans. It changes nothing,
// and is a Conflict while another run holds the cluster's lock: that run's work would be disturbed.
func PlanResolve(ctx context.Context, deps Deps, opts Options) (*ResolvePlan, error) {
	t := newTask(deps, opts)
	out := &ResolvePlan{}
	steps := slices.DeleteFunc(t.resolveSteps(), func(s phase.Step) bool {
		return !slices.Contains([]string{"load", "find-cluster", "await-stores", "collect", "plan"}, s.Name)
	})
	steps = slices.Insert(steps, 2, phase.Step{
		Phase: phaseData, Name: "lock-is-free", Deadline: time.Minute, Do: t.lockIsFree, ReadOnly: true,
	})
	engine := phase.New(phase.Config{Run: opts.Run, Sink: t.Sink, Log: t.Log, Journal: phase.NoJournal{}})
	if err := engine.Run(ctx, steps); err != nil {
		return nil, err
	}
	tasks, err := t.newTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		out.Tasks = append(out.Tasks, taskName(task))
	}
	out.Manifest, out.Resolved = t.manifest, t.resolved
	if plan := t.resolver.Plan(); plan != nil {
		out.Plan = plan.Summary()
	}
	return out, nil
}

// lockIsFree is a Conflict while a run holds the cluster's lock.
func (t *task) lockIsFree(ctx context.Context, _ *phase.Scope) error {
	lock, _, err := runlock.Read(ctx, t.Store, t.opts.Target)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	case lock.Held(time.Now()) && !t.opts.BreakLock:
		return failure.New(failure.Conflict, "plan", t.opts.Target.String(), "%s holds the cluster's lock until %s",
			lock.Owner, lock.FreeAt().UTC().Format(time.RFC3339)).
			WithHint("wait for that run; if it is dead, use --force")
	}
	return nil
}
