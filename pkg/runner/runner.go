package runner

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/storage"
)

// Config is which run this is, and where. All is required but Sink, Log, Remains, NoCopy and the waits.
type Config struct {
	Operation string // "backup" or "restore", for errors
	Run       cluster.RunID
	Cluster   cluster.Name // whose lock the run takes
	Owner     runlock.Owner
	Tool      string // the version of this program
	Store     objstore.Store
	Sink      phase.Sink
	Log       *zap.Logger
	Remains   *phase.Remains
	// Unfinished is what Remains has of the run while it holds the lock.
	Unfinished string
	// NoCopy, if it is not empty, is what a storage that is a copy of another is refused for.
	NoCopy string
	// LockWait is how long another run's lock is watched at most, to find out whether that run is alive; zero is 90 s,
	// and runlock.NoWait refuses at once. AliveWait is how long the lock of a run that is alive is waited for beside
	// that.
	LockWait, AliveWait time.Duration
}

// Runner carries out one run, once. It is not safe for concurrent use.
type Runner struct {
	cfg       Config
	fence     *runlock.Fence
	storage   *storage.Storage
	storageID string
	cancel    context.CancelCauseFunc
	waited    bool
	earlier   *phase.History // of the processes before this one; nil in a new run
	restarted bool           // what they made was undone by this one
	outcome   Outcome
}

// Outcome is how a run went, as a run. It is filled in as far as the run came, also on error.
type Outcome struct {
	Timings phase.Timings
	// Started and Finished are of this process; Before has those that came before it.
	Started, Finished time.Time
	Before            []phase.Process
	// FailedAttempts are those of the group of steps that may be attempted more than once.
	FailedAttempts []phase.Attempt
	// Journalled is true once this process had the lock and its journal was begun. Of a process that came no further,
	// nothing is stored: it may have been refused by the very run whose id it carries.
	Journalled bool
	// LostLock is true of a run that ended because another process has, or may have, its cluster.
	LostLock bool
	// Expected is how long the run was to take by its announcement, by this process or an earlier one; nil without one.
	Expected json.RawMessage
}

// New makes a run that has done nothing yet.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg, fence: runlock.NewFence(cfg.Store, cfg.Cluster, cfg.Owner), cancel: func(error) {}}
}

// Fence is the run's lock, to be asked right before what two runs must not both do.
func (r *Runner) Fence() *runlock.Fence { return r.fence }

// Began reports whether an earlier process has begun the run.
func (r *Runner) Began() bool { return r.earlier != nil }

// Started is when this process began with the run's steps.
func (r *Runner) Started() time.Time { return r.outcome.Started }

// Resumed reports whether the run continues what an earlier process has made.
func (r *Runner) Resumed() bool { return r.earlier != nil && !r.restarted }

// Waited reports whether the run had to wait for the lock of another one.
func (r *Runner) Waited() bool { return r.waited }

// Book is what a run does.
type Book struct {
	// About is written with the journal's first record; what Config has is filled in. It is called right before.
	About func() journal.About
	Steps []phase.Step
	// Resume is how the run is continued; nil refuses a run id that was used.
	Resume *Resumption
	Group  *phase.RetryGroup
	Times  *phase.StoreTimes
	Serial bool
}

// Execute carries the steps out under a journal, or continues the run whose journal is there. It returns how that went
// also on error; an error of a run that has lost its lock says so, whatever failed because of it.
func (r *Runner) Execute(ctx context.Context, book Book) (Outcome, error) {
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	if err := r.openStorage(ctx); err != nil {
		return r.outcome, err
	}
	cfg := phase.Config{
		Fresh: true, Run: r.cfg.Run, Fence: r.fence, Sink: r.cfg.Sink, Log: r.cfg.Log,
		Journal: journal.NewStoreJournal(r.cfg.Store, manifest.JournalPrefix(r.cfg.Run)),
		Begin:   func(ctx context.Context) (any, error) { return r.begin(ctx, book.About) },
		Group:   book.Group, Times: book.Times, Serial: book.Serial,
		// A run of hours survives an outage of object storage for as long as its lock does. A hold waits for nothing.
		JournalPatience: LockTTL,
	}
	if book.Resume != nil {
		cfg.Resume = r.resume(book)
		if book.Resume.Abort { // nothing is begun, and the undo waits for no record
			cfg.Fresh, cfg.Begin, cfg.JournalPatience = false, nil, 0
		}
	}
	engine := phase.New(cfg)
	r.outcome.Started = time.Now().UTC()
	err := r.explain(ctx, engine.Run(ctx, book.Steps))
	r.outcome.Finished = time.Now().UTC()
	r.outcome.Timings, r.outcome.Before = engine.Timings(), engine.Before()
	r.outcome.FailedAttempts, r.outcome.LostLock = engine.FailedAttempts(), r.fence.Loss() != nil
	r.outcome.Journalled = engine.Journalled()
	return r.outcome, err
}

// lockAnswer bounds the last look at the lock.
const lockAnswer = 5 * time.Second

// explain finds out whether a run that failed has lost its lock, and says so: whatever failed may be because of it.
func (r *Runner) explain(ctx context.Context, err error) error {
	if err != nil && r.fence.Epoch() != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAnswer)
		defer cancel()
		_ = r.fence.Confirm(ctx) // notes the loss
	}
	return r.fence.Explain(r.cfg.Operation, err)
}

// Check carries out steps that change nothing. No journal is written.
func (r *Runner) Check(ctx context.Context, steps ...phase.Step) error {
	engine := phase.New(phase.Config{Run: r.cfg.Run, Sink: r.cfg.Sink, Log: r.cfg.Log, Journal: phase.NoJournal{}})
	return engine.Run(ctx, steps)
}

// Announce says how long the run should take, by ask, and journals it if no earlier process has: the report says how
// wrong it was. Ask gets what an earlier process has journalled, and returns nil and "" if nothing is known; a nil ask
// announces nothing.
func (r *Runner) Announce(s *phase.Scope, ask func(earlier json.RawMessage) (expected json.RawMessage, text string)) {
	earlier := r.outcome.Expected
	expected, text := ask(earlier)
	if earlier == nil && expected != nil {
		s.Result(journal.ResultExpected, expected)
		r.outcome.Expected = expected
	}
	if text != "" {
		s.Note("%s", text)
	}
}
