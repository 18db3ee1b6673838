package backup

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/storage"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PD is what a backup needs of the placement driver.
type PD interface {
	hold.PD
	pd.Imports
	pd.Notes
	pd.Settings
}

// TiKV is what a backup needs of the stores.
type TiKV interface {
	tikv.Holder
	tikv.Marker
}

// EBS is what a backup needs of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Tagger
}

// Deps are the systems around a backup. All are required but Sink, Log and Remains.
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
	// Remains learns what would be left if the process ended at any moment.
	Remains *phase.Remains
	// Announce is asked, before anything is changed, how long the run should take: what to journal of it, and what to say;
	// nil and "" if that is not known. Earlier is what an earlier process of the run has journalled; it stays as it is. Nil
	// announces nothing.
	Announce func(source *preflight.Source, earlier json.RawMessage) (expected json.RawMessage, text string)
}

// Result is what a run made and how long it took. It is filled in as far as the run came, also on error.
type Result struct {
	Manifest *manifest.Manifest // nil before it was recorded
	Sealed   bool
	Source   *preflight.Source
	Timings  phase.Timings
	// Started and Finished are of this process; Before has those that came before it.
	Started  time.Time
	Finished time.Time
	Hold     HoldTimes // of the last attempt
	// FailedAttempts are those whose hold broke, and whose snapshots were thrown away.
	FailedAttempts []phase.Attempt
	// Before are the processes of the run that died before this one continued it.
	Before []phase.Process
	// LostLock is true of a run that ended because another process has, or may have, its cluster.
	LostLock bool
	// Attempts is how often the cluster was held.
	Attempts int
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 where EC2 does not say.
	DataBytes, LargestBytes int64
	// Marks are where the regions' raft logs ended, Regions how many there were then; nil and 0 where this process did not
	// read them.
	Marks   *marks.Set
	Regions int
	// Expected is what was announced at the run's start, by Deps.Announce; nil if nothing was.
	Expected json.RawMessage
	// Warnings are what a person has to know of a backup that is done.
	Warnings []string
}

// HoldTimes is how long the live cluster felt the backup.
type HoldTimes struct {
	Start    time.Time
	Length   time.Duration
	CutStart time.Time
	Cut      time.Duration
	Skew     time.Duration // between the first and the last snapshot's start, as EC2 says
	Parts    []phase.Part
	Stores   []phase.StoreParts
}

// run is one backup under way.
type run struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	cancel  context.CancelCauseFunc

	clusterID uint64 // PD's: names are alike in many Kubernetes clusters
	storage   *storage.Storage
	storageID string // that the run's snapshots are tagged with; "" in a run that an older version began
	fence     *runlock.Fence
	resumed   bool  // an earlier process of the run died
	lastEpoch int64 // the highest of such

	source  source
	ts      timestamps
	early   earlyApply
	marks   marker
	holder  holder
	records recorder
	at      attempt
	result  Result
}

// newRun makes a run of options that are complete.
func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	fence := runlock.NewFence(deps.Store, opts.Cluster, opts.Owner)
	backups := catalog.Catalog{Store: objstore.AskFirst(deps.Store), SignKey: opts.SignKey}
	return &run{
		Deps: deps, opts: opts, catalog: backups, cancel: func(error) {}, fence: fence,
		source:  source{kube: deps.Kube, pd: deps.PD, tikv: deps.TiKV, ebs: deps.EBS, opts: opts},
		ts:      timestamps{pd: deps.PD, opts: opts},
		early:   earlyApply{pd: deps.PD, tikv: deps.TiKV, applier: deps.EarlyApply, remains: deps.Remains, opts: opts},
		marks:   marker{pd: deps.PD, tikv: deps.TiKV, catalog: backups, fence: fence, opts: opts},
		holder:  holder{pd: deps.PD, tikv: deps.TiKV, fence: fence, store: deps.Store, opts: opts},
		records: recorder{pd: deps.PD, ebs: deps.EBS, catalog: backups, opts: opts},
		at:      newAttempt(),
	}
}

// Run takes the backup. The error's kind says what the caller can do; kind Held means that the cluster was
// not released and a person has to act.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newRun(deps, opts)
	r.cancel = cancel
	if err := errors.Join(r.identify(ctx), r.openStorage(ctx)); err != nil {
		return &Result{}, err
	}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Resume:  r.resumption(),
		Fence:   r.fence,
		Run:     opts.Run,
		Journal: journal.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    r.Sink,
		Log:     r.Log,
		Begin:   r.begin,
		Group:   r.holdGroup(),
		// A set of hours survives an outage of object storage for as long as the lock does. The hold waits for nothing.
		JournalPatience: lockTTL,
	})
	r.result.Started = time.Now().UTC()
	err := engine.Run(ctx, r.steps())
	err = r.conclude(ctx, err)
	r.result.Finished = time.Now().UTC()
	r.result.Timings = engine.Timings()
	r.result.Source, r.result.Hold = r.source.Source, r.at.felt(r.source.Source)
	r.result.FailedAttempts = engine.FailedAttempts()
	r.result.Before, r.result.LostLock = engine.Before(), r.fence.Loss() != nil
	return &r.result, err
}

// lockAnswer bounds the last look at the lock.
const lockAnswer = 5 * time.Second

// conclude finds out whether a run that failed has lost its lock, and says so: whatever failed may be
// because of it.
func (r *run) conclude(ctx context.Context, err error) error {
	if err == nil || r.fence.Epoch() == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAnswer)
	defer cancel()
	_ = r.fence.Confirm(ctx) // notes the loss
	return r.fence.Explain("backup", err)
}

// Plan does the checks of a backup and nothing else, for a dry run.
func Plan(ctx context.Context, deps Deps, opts Options) (*preflight.Source, error) {
	opts.defaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	r := newRun(deps, opts)
	engine := phase.New(phase.Config{Run: opts.Run, Sink: r.Sink, Log: r.Log, Journal: phase.NoJournal{}})
	step := r.preflightStep()
	step.Do = func(ctx context.Context, s *phase.Scope) error {
		if err := r.checkStorage(ctx, s); err != nil {
			return err
		}
		return r.preflight(ctx, s)
	}
	if err := engine.Run(ctx, []phase.Step{step}); err != nil {
		return nil, err
	}
	return r.source.Source, nil
}
