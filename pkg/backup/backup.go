package backup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
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
	phaseSeal       = "seal"
)

// EBS is what a backup needs of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
}

// Deps are the systems around a backup. All are required but Sink and Log.
type Deps struct {
	Kube  kube.Clusters
	PD    hold.PD
	TiKV  tikv.Holder
	EBS   EBS
	Store objstore.Store
	Sink  phase.Sink
	Log   *zap.Logger
}

// Options are what the user chose.
type Options struct {
	Cluster cluster.Name
	Backup  cluster.BackupID
	Run     cluster.RunID
	Owner   runlock.Owner
	Tool    string // version of the program, for the manifest
	// MaxLag is how far the resolved ts may lie behind PD's clock; zero is 5 min.
	MaxLag time.Duration
	// PendingQuota is the account's limit of pending snapshots; zero is EC2's default of 100.
	PendingQuota int
	// MaxHold is the budget of the hold; zero is 2 min.
	MaxHold time.Duration
	// Lease is how long the cluster stays held after the process died; zero is 30 s.
	Lease time.Duration
	// Stuck is how long the snapshots' progress may stand still; zero is 2 h.
	Stuck time.Duration
	// Timeout bounds the wait for the snapshots; zero is 48 h: EBS promises no time.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a snapshot that exists; zero is 30 s, longer than the 20 s that were seen.
	Visibility time.Duration
}

func (o *Options) defaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.MaxLag, 5 * time.Minute},
		{&o.MaxHold, 2 * time.Minute},
		{&o.Lease, 30 * time.Second},
		{&o.Stuck, 2 * time.Hour},
		{&o.Timeout, 48 * time.Hour},
		{&o.Visibility, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
}

// Result is what a run made and how long it took. It is filled in as far as the run came, also on error.
type Result struct {
	Manifest *manifest.Manifest // nil before it was recorded
	Sealed   bool
	Source   *preflight.Source
	Timings  phase.Timings
	Started  time.Time
	Finished time.Time
	Hold     HoldTimes
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
	Parts    []hold.Part
}

// task is one run under way.
type task struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	cancel  context.CancelCauseFunc

	source   *preflight.Source
	lock     *runlock.Kept
	hold     *hold.Hold
	backupTS cluster.TS
	sets     *sets
	result   Result
}

// Run takes the backup. The error's kind says what the caller can do; kind Held means that the cluster was
// not let go and a person has to act.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	opts.defaults()
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &task{Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store}, cancel: cancel, sets: newSets()}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Run:     opts.Run,
		Journal: phase.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    deps.Sink,
		Log:     deps.Log,
		About:   about{Operation: "backup", Cluster: opts.Cluster, Backup: opts.Backup, Tool: opts.Tool},
	})
	t.result.Started = time.Now().UTC()
	err := engine.Run(ctx, t.steps())
	t.result.Finished = time.Now().UTC()
	t.result.Timings = engine.Timings()
	t.result.Source = t.source
	if t.hold != nil {
		t.result.Hold.Parts = t.hold.Parts()
	}
	return &t.result, err
}

// about is the journal's first record.
type about struct {
	Operation string           `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"`
	Backup    cluster.BackupID `json:"backup"`
	Tool      string           `json:"tool"`
}

// steps is the runbook.
func (t *task) steps() []phase.Step {
	return []phase.Step{
		{Phase: phaseTask, Name: "preflight", Deadline: 5 * time.Minute, Do: t.preflight, ReadOnly: true},
		{Phase: phaseTask, Name: "lock", Deadline: time.Minute, Do: t.takeLock, Undo: t.dropLock},
		{Phase: phaseTask, Name: "claim", Deadline: time.Minute, Do: t.claim},
		{Phase: phaseTask, Name: "connect", Deadline: time.Minute, Do: t.connect, Undo: t.letGo, UndoFirst: true},

		{Phase: phaseScheduling, Name: stepHold, Deadline: t.opts.MaxHold, Do: t.pause, Undo: t.letGo, UndoFirst: true},
		{Phase: phaseGC, Name: "hold-gc", Deadline: t.opts.MaxHold, Do: t.pauseGC},
		{Phase: phaseTS, Name: "backup-ts", Deadline: t.opts.MaxHold, Do: t.readTS},

		{Phase: phaseSnapshots, Name: "cut", Deadline: t.opts.MaxHold, Do: t.cut, Undo: t.deleteSnapshots, UndoDeadline: time.Hour},
		{Phase: phaseSnapshots, Name: stepRelease, Deadline: t.opts.MaxHold, Do: t.release, Ends: []string{"connect", stepHold}, NoWait: true},
		{Phase: phaseSnapshots, Name: "record", Deadline: 5 * time.Minute, Do: t.record, Undo: t.forget, Retry: true},
		{Phase: phaseSnapshots, Name: "wait", Deadline: t.opts.Timeout, Do: t.wait},

		{Phase: phaseSeal, Name: "seal", Deadline: 5 * time.Minute, Do: t.seal, Retry: true, Ends: []string{"cut", "record"}},
		{Phase: phaseSeal, Name: "unlock", Deadline: time.Minute, Do: t.unlock, Ends: []string{"lock"}},
	}
}

// Plan does the checks of a backup and nothing else, for a dry run.
func Plan(ctx context.Context, deps Deps, opts Options) (*preflight.Source, error) {
	opts.defaults()
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
