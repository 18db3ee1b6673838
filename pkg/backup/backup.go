package backup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The phases that a user sees timed, by the names of the published tables, and the last one of our own.
const (
	phaseTask       = "create task"
	phaseScheduling = "pause scheduling"
	phaseGC         = "pause GC"
	phaseTS         = "get backup ts"
	phaseSnapshots  = "volume snapshots"
	phaseAgain      = "hold again" // between two attempts at the hold
	phaseSeal       = "seal"
)

// PD is what a backup needs of the placement driver.
type PD interface {
	hold.PD
	pd.Imports
}

// TiKV is what a backup needs of the stores.
type TiKV interface {
	tikv.Holder
}

// EBS is what a backup needs of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Instances
	ebs.Volumes
	ebs.Account
	ebs.ZoneIDs
	ebs.Quotas
	ebs.InProgress
}

// Deps are the systems around a backup. All are required but Sink and Log.
type Deps struct {
	Kube  kube.Clusters
	PD    PD
	TiKV  TiKV
	EBS   EBS
	Store objstore.Store
	Sink  phase.Sink
	Log   *zap.Logger
}

// Result is what a run made and how long it took. It is filled in as far as the run came, also on error.
type Result struct {
	Manifest *manifest.Manifest // nil before it was recorded
	Sealed   bool
	Source   *preflight.Source
	Timings  phase.Timings
	Started  time.Time
	Finished time.Time
	Hold     HoldTimes // of the last attempt
	// FailedAttempts are those whose hold broke, and whose snapshots were thrown away.
	FailedAttempts []phase.Attempt
	// Attempts is how often the cluster was held.
	Attempts int
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 where EC2 does not tell.
	DataBytes, LargestBytes int64
}

// HoldTimes is how long the live cluster felt the backup.
type HoldTimes struct {
	Start    time.Time
	Length   time.Duration
	CutStart time.Time
	Cut      time.Duration
	Skew     time.Duration // between the first and the last snapshot's start, as EC2 tells it
	Parts    []phase.Part
	Stores   []hold.StoreParts
}

// task is one run under way.
type task struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	cancel  context.CancelCauseFunc

	source    *preflight.Source
	rules     preflight.TSRules
	lock      *runlock.HeldLock
	hold      *hold.Hold
	backupTS  cluster.TS
	zones     map[cluster.Zone]string
	sets      *sets
	discarded map[cluster.SnapshotID]bool // snapshots of attempts that failed
	result    Result
}

// Run takes the backup. The error's kind says what the caller can do; kind Held means that the cluster was
// not let go and a person has to act.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &task{
		Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store}, cancel: cancel,
		sets: newSets(), discarded: map[cluster.SnapshotID]bool{},
	}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Run:     opts.Run,
		Journal: phase.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    deps.Sink,
		Log:     deps.Log,
		About:   journal.About{Operation: journal.Backup, Cluster: opts.Cluster, Backup: opts.Backup, Tool: opts.Tool},
		Group:   t.holdGroup(),
	})
	t.result.Started = time.Now().UTC()
	err := engine.Run(ctx, t.steps())
	t.result.Finished = time.Now().UTC()
	t.result.Timings = engine.Timings()
	t.result.Source = t.source
	t.result.FailedAttempts = engine.FailedAttempts()
	if t.hold != nil {
		t.result.Hold.Parts, t.result.Hold.Stores = t.hold.Parts(), t.storeParts()
	}
	return &t.result, err
}

// steps is the runbook.
func (t *task) steps() []phase.Step {
	steps := t.checks()
	// The hold has a watchdog of its own that ends it after MaxHold; a step's deadline is behind it.
	holding, releasing := t.opts.MaxHold+watchdogMargin, t.opts.MaxHold+t.opts.Lease
	return append(steps, []phase.Step{
		{Phase: phaseTask, Name: journal.StepLock, Deadline: time.Minute, Do: t.takeLock, Undo: t.dropLock},
		{Phase: phaseTask, Name: "claim", Deadline: time.Minute, Do: t.claim},
		{Phase: phaseTask, Name: journal.StepConnect, Deadline: time.Minute, Do: t.connect, Undo: t.disconnect, UndoFirst: true},

		{Phase: phaseScheduling, Name: journal.StepHold, Deadline: holding, Do: t.pause, Undo: t.letGo, UndoDeadline: releasing, UndoFirst: true},
		{Phase: phaseGC, Name: journal.StepHoldGC, Deadline: holding, Do: t.pauseGC},
		{Phase: phaseTS, Name: journal.StepBackupTS, Deadline: holding, Do: t.readTS},

		{Phase: phaseSnapshots, Name: journal.StepCut, Deadline: holding, Do: t.cut, Undo: t.deleteSnapshots, UndoDeadline: time.Hour},
		{Phase: phaseSnapshots, Name: journal.StepRelease, Deadline: releasing, Do: t.release, Ends: []string{journal.StepConnect, journal.StepHold}, NoWait: true},
		{Phase: phaseSnapshots, Name: journal.StepRecord, Deadline: 5 * time.Minute, Do: t.record, Undo: t.forget, Retry: true},
		{Phase: phaseSnapshots, Name: "wait", Deadline: t.opts.Timeout, Do: t.wait},

		{Phase: phaseSeal, Name: "seal", Deadline: 5 * time.Minute, Do: t.seal, Retry: true, Ends: []string{journal.StepCut, journal.StepRecord}},
		{Phase: phaseSeal, Name: "unlock", Deadline: time.Minute, Do: t.unlock, Ends: []string{journal.StepLock}},
	}...)
}

// watchdogMargin is how much later than the hold's own watchdog a step's deadline ends what it does.
const watchdogMargin = 10 * time.Second

// checks are the steps before anything is changed.
func (t *task) checks() []phase.Step {
	steps := []phase.Step{{Phase: phaseTask, Name: "preflight", Deadline: 5 * time.Minute, Do: t.preflight, ReadOnly: true}}
	if t.opts.OnImport == preflight.WaitOnImport {
		steps = append(steps, phase.Step{
			Phase: phaseTask, Name: "await-imports", Deadline: t.opts.ImportTimeout + time.Minute, Do: t.awaitImports, ReadOnly: true,
		})
	}
	if t.opts.ConsistentNow {
		steps = append(steps, phase.Step{
			Phase: phaseTask, Name: "await-resolved-ts", Deadline: t.opts.ConsistentTimeout + time.Minute, Do: t.awaitTS, ReadOnly: true,
		})
	}
	return steps
}

// Plan does the checks of a backup and nothing else, for a dry run.
func Plan(ctx context.Context, deps Deps, opts Options) (*preflight.Source, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	t := &task{Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store}}
	engine := phase.New(phase.Config{Run: opts.Run, Sink: deps.Sink, Log: deps.Log, Journal: phase.NoJournal{}})
	if err := engine.Run(ctx, t.steps()[:1]); err != nil {
		return nil, err
	}
	return t.source, nil
}
