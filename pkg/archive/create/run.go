package create

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// The phases in reports.
const (
	phasePrepare = "prepare"
	phaseRead    = "archive blocks"
	phaseCommit  = "commit"
)

// readDeadline bounds the reading of all volumes. It only keeps a run from staying for ever: each call has a limit.
const readDeadline = 60 * 24 * time.Hour

// Result is what a run archived and how long it took, as far as it got, also on error.
type Result struct {
	runner.Outcome
	Archive   string // its id; "" before it was chosen
	Base      string // that it was compared with
	Committed bool
	Manifest  *manifest.Manifest
	Volumes   []Volume // that are done
	Spent     Spent
}

// run is one archive in progress.
type run struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	runner  *runner.Runner

	document []byte // the manifest
	manifest *manifest.Manifest
	works    []work
	choice   choice
	using    using
	earlier  earlier
	archived archived
	result   Result
}

// choice is what is fixed at the run's start.
type choice struct {
	Archive string    `json:"archive"`
	Base    string    `json:"base,omitempty"`
	Created time.Time `json:"created"`
}

// archived is what reading all volumes made.
type archived struct {
	Volumes []Volume        `json:"volumes"`
	Maps    []format.Volume `json:"maps"` // in the same order
	Spent   Spent           `json:"spent"`
}

func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	about := journal.About{Operation: journal.Archive, Cluster: opts.Cluster}
	return &run{
		Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store, VerifyKey: opts.VerifyKey},
		runner: runner.New(runner.Config{
			Operation: string(journal.Archive), Run: opts.Run, Cluster: opts.Cluster, Lock: about.Lock(),
			Owner: opts.Owner, Tool: opts.Tool, Store: deps.Store, Sink: deps.Sink, Log: deps.Log,
			Remains: deps.Remains, Unfinished: "the same command resumes the archive", LockWait: opts.LockWait,
		}),
	}
}

// Run archives the backup. After an error, or if the process dies, the run is unfinished, and a call with the same
// Options.Run resumes it, or starts over with another archive if the lease of the first was broken meanwhile.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	r := newRun(deps, opts)
	outcome, err := r.runner.Execute(ctx, runner.Book{
		About: func() journal.About {
			about := opts.About(deps.Repository)
			about.Region = deps.Region
			return about
		},
		Steps: r.steps(),
		Resume: &runner.Resumption{
			Learn: r.earlier.learn, StartOver: r.startOver, Reset: r.startAfresh, Keeps: true,
		},
	})
	r.result.Outcome = outcome
	return &r.result, err
}

// Outline lists the steps of a run.
func Outline() []phase.Outline { return phase.Outlines(newRun(Deps{}, Options{}).steps()) }

// steps is the runbook. Nothing is undone: what is in the repository without an archive harms nothing.
func (r *run) steps() []phase.Step {
	return []phase.Step{
		r.preflightStep(),
		r.runner.LockStep(phasePrepare, r.runner.Lock),
		{
			Phase: phasePrepare, Name: journal.StepChoose, Deadline: 10 * time.Minute, Do: r.choose, Retry: true,
			Resume: phase.Resumption{State: &r.choice, Adopted: r.prepare},
		},
		{
			Phase: phaseRead, Name: journal.StepRead, Deadline: readDeadline, Do: r.read,
			Resume: phase.Resumption{State: &r.archived},
		},
		{
			Phase: phaseCommit, Name: journal.StepCommit, Deadline: runner.LockTTL, Do: r.commit, Retry: true,
			Resume: phase.Resumption{Adopted: r.committed},
		},
		r.runner.UnlockStep(phaseCommit),
	}
}

func (r *run) preflightStep() phase.Step {
	return phase.Step{
		Phase: phasePrepare, Name: "preflight", Deadline: 10 * time.Minute, Do: r.preflight, ReadOnly: true,
		Retry: true, Patience: time.Minute,
	}
}
