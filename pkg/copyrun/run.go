package copyrun

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
)

// The phases in reports.
const (
	phasePrepare = "prepare"
	phaseCopy    = "copy snapshots"
	phaseSeal    = "seal"
)

// copyDeadline only keeps a run from staying for ever: Options.Stuck ends one without progress.
const copyDeadline = 30 * 24 * time.Hour

// Result is what a run copied and how long it took, as far as it got, also on error.
type Result struct {
	runner.Outcome
	Manifest *manifest.Manifest // of the source; nil before it was read
	Plan     Plan
	Copies   []Copied // that are completed
	Sealed   bool
	// Shared are snapshots of the source that the target's account may still read because of the run.
	Shared []cluster.SnapshotID
}

// Copied is a completed copy.
type Copied struct {
	Store    cluster.StoreID
	Role     cluster.Role
	Snapshot cluster.SnapshotID // of the source
	Copy     cluster.SnapshotID
	Bytes    int64 // all data in it
	// Full is why all of it was moved; "" if only what has changed was.
	Full copyplan.Reason
}

// run is one copy in progress.
type run struct {
	Deps
	opts    Options
	from    catalog.Catalog
	to      catalog.Catalog
	runner  *runner.Runner
	earlier earlier
	lease   *runlock.HeldLock

	found    found
	progress progress
	result   Result
}

// found is what the preflight reads: what to copy, from where, and for whom.
type found struct {
	origin   catalog.Document // the source's manifest, and its signature if it has one
	manifest *manifest.Manifest
	source   map[cluster.SnapshotID]ebs.Snapshot // as EC2 shows them in the source
	account  string                              // the target's
	sharing  bool                                // the source's account has to let it read them
	key      string                              // the ARN of Options.KMSKey; "" if unknown
}

// progress is what the run did so far, with its earlier processes.
type progress struct {
	shared []cluster.SnapshotID
	made   map[cluster.SnapshotID]cluster.SnapshotID // copies by their sources
}

func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	about := journal.About{Operation: journal.Copy, Cluster: opts.Cluster}
	return &run{
		Deps: deps, opts: opts,
		from: catalog.Catalog{Store: deps.From, VerifyKey: opts.VerifyKey},
		to:   catalog.Catalog{Store: deps.To, SignKey: opts.SignKey},
		runner: runner.New(runner.Config{
			Operation: string(journal.Copy), Run: opts.Run, Cluster: opts.Cluster, Lock: about.Lock(),
			Owner: opts.Owner, Tool: opts.Tool, Store: deps.To, Sink: deps.Sink, Log: deps.Log, Remains: deps.Remains,
			Unfinished: "the same command resumes the copy; without it, tisnap gc deletes what was copied",
			NoCopy:     "copy backup", LockWait: opts.LockWait,
		}),
	}
}

// Run copies the backup. After an error, or if the process dies, the run is unfinished, and a call with the same
// Options.Run resumes it; gc in the target's storage deletes what it made. Until it is resumed the target's account may
// read the snapshots that it shared.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	r := newRun(deps, opts)
	outcome, err := r.runner.Execute(ctx, runner.Book{
		About:  func() journal.About { return opts.About(&deps) },
		Steps:  r.steps(),
		Resume: &runner.Resumption{Learn: r.earlier.learn, Keeps: true},
	})
	if leaseErr := r.lease.Release(ctx); leaseErr != nil {
		r.Log.Warn("the backup cannot be deleted until the copy's lease on it ends by itself, within "+
			runner.LockTTL.String(), zap.Error(leaseErr))
	}
	r.result.Outcome, r.result.Shared = outcome, r.progress.shared
	return &r.result, err
}

// Outline lists the steps of a run.
func Outline() []phase.Outline { return phase.Outlines(newRun(Deps{}, Options{}).steps()) }

// steps is the runbook. What an earlier process did is checked again, as gc may have deleted it since. Nothing is
// undone: the same command resumes a copy, and gc deletes one that is abandoned.
func (r *run) steps() []phase.Step {
	return []phase.Step{
		r.preflightStep(),
		r.runner.LockStep(phasePrepare, r.runner.Lock),
		{
			Phase: phasePrepare, Name: "lease-source", Deadline: 10 * time.Minute, Do: r.takeLease,
			Resume: phase.Resumption{Repeat: true},
		},
		{
			Phase: phasePrepare, Name: journal.StepShare, Deadline: time.Hour, Do: r.share,
			Resume: phase.Resumption{Repeat: true},
		},
		{
			Phase: phasePrepare, Name: "claim", Deadline: runner.LockTTL, Do: r.claim, Retry: true,
			Resume: phase.Resumption{Repeat: true},
		},
		{
			Phase: phaseCopy, Name: journal.StepCopy, Deadline: copyDeadline, Do: r.copy,
			ReadsLock: true, // a copy is requested without a token
			Resume:    phase.Resumption{Repeat: true},
		},
		{
			Phase: phaseSeal, Name: "record-copy", Deadline: runner.LockTTL, Do: r.record, Retry: true,
			Resume: phase.Resumption{Repeat: true},
		},
		{
			Phase: phaseSeal, Name: "seal-copy", Deadline: runner.LockTTL, Do: r.seal, Retry: true,
			Resume: phase.Resumption{Adopted: r.sealed},
		},
		{
			Phase: phaseSeal, Name: "unshare", Deadline: time.Hour, Do: r.unshare, Retry: true,
			Resume: phase.Resumption{Repeat: true},
		},
		r.runner.UnlockStep(phaseSeal),
	}
}

func (r *run) preflightStep() phase.Step {
	return phase.Step{
		Phase: phasePrepare, Name: "preflight", Deadline: 10 * time.Minute, Do: r.preflight, ReadOnly: true,
		Retry: true, Patience: time.Minute, Resume: phase.Resumption{Repeat: true},
	}
}
