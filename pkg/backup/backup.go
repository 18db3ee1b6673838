package backup

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PD is what a backup needs from the placement driver.
type PD interface {
	hold.PD
	pd.Imports
	pd.Notes
	pd.Settings
}

// TiKV is what a backup needs from the stores.
type TiKV interface {
	tikv.Holder
	tikv.Marker
}

// EBS is what a backup needs from EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Tagger
	ebs.Keys
}

// Deps are a backup's dependencies. All are required except Sink, Log and Remains.
type Deps struct {
	Kube kube.Clusters
	PD   PD
	TiKV TiKV
	EBS  EBS
	// EarlyApply reads and sets early apply at the stores' status ports; nil leaves it alone, and the backup unproven.
	EarlyApply tikv.EarlyApplier
	Store      objstore.Store
	Sink       phase.Sink
	Log        *zap.Logger
	// Remains tracks what would be left if the process ended now.
	Remains *phase.Remains
	// ExpectDuration returns, before anything is changed, how long the run should take: what to journal and what to
	// show; nil and "" if unknown. Earlier is what an earlier process of the run journalled; it is kept. Nil expects
	// nothing.
	ExpectDuration func(source *preflight.Source, earlier json.RawMessage) (expected json.RawMessage, text string)
}

// Result is what a run made and how long it took, as far as it got, also on error.
//
// The run's FailedAttempts are those whose hold broke and whose snapshots were discarded.
type Result struct {
	runner.Outcome
	Manifest *manifest.Manifest // nil before it was recorded
	Sealed   bool
	Source   *preflight.Source
	Hold     HoldTimes // of the last attempt
	// Attempts counts the holds.
	Attempts int
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 if EC2 does not report it.
	DataBytes, LargestBytes int64
	// Marks are where the regions' raft logs ended, Regions how many regions there were; nil and 0 if this process did
	// not read them.
	Marks   *marks.Set
	Regions int
	// Warnings need attention although the backup succeeded.
	Warnings []string
}

// HoldTimes is how long the backup affected the live cluster.
type HoldTimes struct {
	Start    time.Time
	Length   time.Duration
	CutStart time.Time
	Cut      time.Duration
	Skew     time.Duration // between the first and the last snapshot's start, by EC2
	Parts    []phase.Part
	Stores   []phase.StoreParts
}

// run is one backup in progress: the parts and their dependencies. Its steps pass on what each part makes.
type run struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	runner  *runner.Runner
	source  source
	ts      timestamps
	early   earlyApply
	marks   marker
	holder  holder
	records recorder
	at      attempt // the one under way, or the last
}

// newRun makes a run from complete options.
func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	scaffold := newRunner(deps, opts)
	backups := catalog.Catalog{Store: objstore.AskFirst(deps.Store), SignKey: opts.SignKey}
	return &run{
		Deps: deps, opts: opts, catalog: backups, runner: scaffold,
		source:  source{kube: deps.Kube, pd: deps.PD, tikv: deps.TiKV, ebs: deps.EBS, opts: opts},
		ts:      timestamps{pd: deps.PD, opts: opts},
		early:   earlyApply{pd: deps.PD, tikv: deps.TiKV, applier: deps.EarlyApply, remains: deps.Remains, opts: opts},
		marks:   marker{pd: deps.PD, tikv: deps.TiKV, catalog: backups, opts: opts},
		holder:  holder{pd: deps.PD, tikv: deps.TiKV, fence: scaffold.Fence(), storage: deps.Store, opts: opts},
		records: recorder{pd: deps.PD, ebs: deps.EBS, catalog: backups, opts: opts},
		at:      newAttempt(0),
	}
}

func newRunner(deps Deps, opts Options) *runner.Runner {
	cfg := runner.Config{
		Operation: "backup", Run: opts.Run, Cluster: opts.Cluster, Owner: opts.Owner, Tool: opts.Tool,
		Store: deps.Store, Sink: deps.Sink, Log: deps.Log, Remains: deps.Remains,
		NoCopy: "back up", LockWait: opts.LockWait,
	}
	if deps.Store != nil { // nil in an outline
		cfg.Unfinished = unfinished(deps.Store.URL(), opts)
	}
	return runner.New(cfg)
}

// Run takes the backup. The error's kind shows the caller what to do; kind Held means that the cluster was not released
// and someone has to act.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	r := newRun(deps, opts)
	if err := r.source.identify(ctx); err != nil {
		return &Result{}, err
	}
	outcome, err := r.runner.Execute(ctx, r.book(r.steps(), r.resumption()))
	return r.result(outcome), err
}

// result is what the parts have made.
func (r *run) result(outcome runner.Outcome) *Result {
	set, regions := r.marks.kept()
	return &Result{
		Outcome: outcome, Manifest: r.records.manifest, Sealed: r.records.sealed, Source: r.source.Source,
		Hold: r.at.felt(r.source.Source), Attempts: r.at.number, DataBytes: r.at.sizes.all,
		LargestBytes: r.at.sizes.largest, Marks: set, Regions: regions, Warnings: r.source.warnings,
	}
}

// book is what the run does.
func (r *run) book(steps []phase.Step, resume *runner.Resumption) runner.Book {
	about := func() journal.About {
		about := r.about()
		about.Region = r.EBS.Region()
		return about
	}
	return runner.Book{About: about, Steps: steps, Resume: resume, Group: r.holdGroup()}
}

// Plan only runs the checks of a backup, for a dry run.
func Plan(ctx context.Context, deps Deps, opts Options) (*preflight.Source, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	r := newRun(deps, opts)
	if err := r.runner.Check(ctx, r.runner.StorageStep(phaseTask), r.preflightStep()); err != nil {
		return nil, err
	}
	return r.source.Source, nil
}
