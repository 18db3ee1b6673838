package drill

import (
	"context"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// The phases in reports.
const (
	phasePrepare  = "prepare"
	phaseCage     = "make cage"
	phaseRestore  = "restore"
	phaseCheck    = "check"
	phaseTearDown = "tear down"
)

// run is one drill in progress.
type run struct {
	Deps
	opts   Options
	runner *runner.Runner
	about  journal.About

	made   made
	result Result
}

// made is what this process and earlier ones of the run may have made.
type made struct {
	cage    journal.Cage
	targets []journal.DrillTarget
}

func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	about := journal.About{Operation: journal.Drill, Cluster: opts.Cluster}
	return &run{
		Deps: deps, opts: opts, result: newResult(),
		runner: runner.New(runner.Config{
			Operation: string(journal.Drill), Run: opts.Run, Cluster: opts.Cluster, Lock: about.Lock(),
			Owner: opts.Owner, Tool: opts.Tool, Store: deps.Store, Sink: deps.Sink, Log: deps.Log,
			Remains: deps.Remains, LockWait: opts.LockWait,
			Unfinished: "what the drill made is still there: tisnap drill clean " + string(opts.Run),
		}),
	}
}

// Run drills the backup. However it ends, it removes what it made, unless its lock is lost or the process dies. Another
// call with the same Options.Run then removes that first, and starts from scratch.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts)
	if err := r.opts.Validate(); err != nil {
		return &r.result, err
	}
	var err error
	if r.about, err = r.opts.About(ctx, &deps); err != nil {
		return &r.result, err
	}
	outcome, err := r.runner.Execute(ctx, runner.Book{
		About: func() journal.About { return r.about }, Steps: r.steps(),
		Resume: &runner.Resumption{
			Learn: r.learn, Reset: r.startAfresh,
			StartOver: func(context.Context, *phase.History) (string, error) { return "its process died", nil },
		},
	})
	r.result.Outcome = outcome
	return &r.result, r.result.conclude(&r.opts, err)
}

// Clean removes what a dead drill left, or one that could not remove all. It changes nothing of a live one: Conflict.
func Clean(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts)
	r.opts.defaults()
	var err error
	if r.about, err = r.opts.About(ctx, &deps); err != nil {
		return &r.result, err
	}
	steps := r.steps()
	outcome, err := r.runner.Execute(ctx, runner.Book{
		About: func() journal.About { return r.about }, Steps: steps[1:], // without the preflight
		Resume: &runner.Resumption{Learn: r.learnLeft, Abort: true, Ended: true},
	})
	r.result.Outcome = outcome
	if err == nil {
		r.result.TearDown = Gone // also if there was nothing
	}
	return &r.result, r.result.conclude(&r.opts, err)
}

// MayHaveLeft reports whether a drill that is not alive may have left something.
func MayHaveLeft(h *phase.History) bool {
	return h.Began(journal.StepCage) && !h.Done(journal.StepTearDown)
}

// learn reads what the run's earlier processes made, and where.
func (r *run) learn(h *phase.History, was *journal.About) error {
	f := journal.ReadFacts(h.Records).Drill
	if f.Unclear != nil {
		return failure.Wrap(f.Unclear, failure.Corrupt, "read journal", string(r.opts.Run))
	}
	if was.Operation != journal.Drill {
		return failure.New(failure.Usage, "resume drill", string(r.opts.Run), "it is a %s", was.Operation)
	}
	if was.KubernetesUID != r.about.KubernetesUID || was.Region != r.about.Region {
		return failure.New(failure.Conflict, "resume drill", string(r.opts.Run),
			"it began with Kubernetes at %s and region %s, and these are %s and %s", was.Kubernetes, was.Region,
			r.about.Kubernetes, r.about.Region).WithHint("use the context and the region that it was begun with")
	}
	r.made = made{cage: f.Cage, targets: f.Targets}
	return nil
}

// learnLeft is learn for a run that is only cleaned up.
func (r *run) learnLeft(h *phase.History, was *journal.About) error {
	if h.Ended && !MayHaveLeft(h) {
		return failure.New(failure.Conflict, "clean up drill", string(r.opts.Run), "it has removed all that it made")
	}
	return r.learn(h, was)
}

// startAfresh forgets the cage that was removed. Volumes of earlier restores are looked for again at the end.
func (r *run) startAfresh() error {
	r.made, r.result = made{targets: r.made.targets}, newResult()
	return nil
}

// Outline lists the steps of a run.
func Outline() []phase.Outline { return phase.Outlines(newRun(Deps{}, Options{}).steps()) }

// steps is the runbook. Whatever exists of a drill does so because of its cage, whose undo is the removal of all of it.
func (r *run) steps() []phase.Step {
	o := r.opts
	o.defaults()
	checking := o.Checks.Budget + connectWithin + time.Minute
	return []phase.Step{
		{
			Phase: phasePrepare, Name: "preflight", Deadline: 10 * time.Minute, Do: r.preflight, ReadOnly: true,
			Retry: true, Patience: time.Minute, Resume: phase.Resumption{Repeat: true},
		},
		r.runner.LockStep(phasePrepare, r.runner.Lock),
		{
			Phase: phaseCage, Name: journal.StepCage, Deadline: 5 * time.Minute, Do: r.makeCage,
			Undo: phase.Undo{Do: r.tearDown, Deadline: o.TearDownWithin, Kept: r.kept()}, Retry: true,
		},
		{Phase: phaseCage, Name: "prove-cage", Deadline: proveWithin, Do: r.proveCage},
		{Phase: phaseRestore, Name: "restore", Deadline: o.RestoreWithin, Do: r.restore},
		{Phase: phaseCheck, Name: "check", Deadline: checking, Do: r.check},
		{
			Phase: phaseTearDown, Name: journal.StepTearDown, Deadline: o.TearDownWithin, Do: r.tearDown,
			Order: phase.Order{Ends: []string{journal.StepCage}},
		},
		r.runner.UnlockStep(phaseTearDown),
	}
}

func (r *run) kept() string {
	return "what the drill made is kept: another process may have taken it over; else remove it: tisnap drill clean " +
		string(r.opts.Run)
}

// preflight finds, without changing anything, what the restore would be refused for.
func (r *run) preflight(ctx context.Context, s *phase.Scope) (err error) {
	r.result.Planned, err = r.Plan(ctx, r.target().Cluster)
	if err == nil && r.result.Planned.Volumes == 0 {
		return failure.New(failure.Corrupt, "drill", string(r.opts.Backup), "no volume would be made")
	}
	return err
}

// request are the options by which a run is known again.
func (o *Options) request() map[string]string {
	tables := strconv.Itoa(o.Checks.Tables)
	if o.Checks.AllTables {
		tables = "all"
	}
	return map[string]string{"tables": tables, "budget": o.Checks.Budget.String(), "sql": o.ChecksDigest}
}
