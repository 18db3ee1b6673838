package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/storage"
)

// Config identifies the run and its storage. All is required except Sink, Log, Remains, NoCopy and the waits.
type Config struct {
	Operation string // "backup" or "restore", for errors
	Run       cluster.RunID
	Cluster   cluster.Name // that the run is about
	Lock      cluster.Name // whose lock it takes, if that is not Cluster's
	Owner     runlock.Owner
	Tool      string // the version of this program
	Store     objstore.Store
	Sink      phase.Sink
	Log       *zap.Logger
	Remains   *phase.Remains
	// Unfinished is the run's text in Remains while it holds the lock.
	Unfinished string
	// NoCopy, if not empty, is why a storage that is a copy of another is refused.
	NoCopy string
	// LockWait bounds how long another run's lock is watched, to find out whether that run is alive; zero is 90 s, and
	// runlock.NoWait refuses at once. AliveWait is how long to wait, beyond that, for the lock of a live run.
	LockWait, AliveWait time.Duration
}

// Runner executes one run, once. It is not safe for concurrent use.
type Runner struct {
	cfg       Config
	fence     *runlock.Fence
	storage   *storage.Storage
	storageID string
	cancel    context.CancelCauseFunc
	waited    bool
	earlier   *phase.History // of the earlier processes; nil in a new run
	restarted bool           // this process undid what they made
	outcome   Outcome
}

// Outcome is how a run went, as far as it got, also on error.
type Outcome struct {
	Timings phase.Timings
	// Started and Finished are of this process; Before are the earlier ones.
	Started, Finished time.Time
	Before            []phase.Process
	// FailedAttempts are those of the group of steps that may be retried.
	FailedAttempts []phase.Attempt
	// Journalled is true once this process had the lock and its journal was begun. Before that nothing is stored: it
	// may have been refused by the very run whose id it carries.
	Journalled bool
	// LostLock is true if the run ended because another process has, or may have, its cluster.
	LostLock bool
	// Expected is the run's announced duration, by this process or an earlier one; nil without one.
	Expected json.RawMessage
}

// New makes a run.
func New(cfg Config) *Runner {
	cfg.Lock = cmp.Or(cfg.Lock, cfg.Cluster)
	return &Runner{cfg: cfg, fence: runlock.NewFence(cfg.Store, cfg.Lock, cfg.Owner), cancel: func(error) {}}
}

// Fence is the run's lock, to be checked right before anything that two runs must not both do.
func (r *Runner) Fence() *runlock.Fence { return r.fence }

// Began reports whether an earlier process began the run.
func (r *Runner) Began() bool { return r.earlier != nil }

// Started is when this process began the run's steps.
func (r *Runner) Started() time.Time { return r.outcome.Started }

// Resumed reports whether the run continues with what an earlier process made.
func (r *Runner) Resumed() bool { return r.earlier != nil && !r.restarted }

// Waited reports whether the run waited for another run's lock.
func (r *Runner) Waited() bool { return r.waited }

// Book is what a run does.
type Book struct {
	// About returns the content of the journal's first record, to which Config's fields are added. It is called right
	// before that is written.
	About func() journal.About
	Steps []phase.Step
	// Resume is how the run is resumed; nil refuses a used run id.
	Resume *Resumption
	Group  *phase.RetryGroup
	Times  *phase.StoreTimes
	Serial bool
}

// Execute runs the steps under a journal, or resumes the run if it has one. The outcome is valid also on error. If the
// run has lost its lock the error reports that, whatever failed because of it.
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
		// A run of hours survives an outage of object storage as long as its lock does. A hold does not wait.
		JournalPatience: LockTTL,
	}
	if book.Resume != nil {
		cfg.Resume = r.resume(book)
		if book.Resume.Abort { // nothing is begun, and the undo does not wait for records
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
	if err != nil && book.Resume != nil && book.Resume.Keeps {
		err = errors.Join(err, r.freeLock(ctx))
	}
	return r.outcome, err
}

// freeLock frees the lock of a run that stays unfinished, so that the next process of it need not wait.
func (r *Runner) freeLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAnswer)
	defer cancel()
	return failure.Annotate(r.release(ctx, nil), "free lock", r.cfg.Cluster.String())
}

// lockAnswer bounds the last check of the lock.
const lockAnswer = 5 * time.Second

// explain returns the error of a failed run: if its lock was lost, a script needs to know that rather than what failed
// before the loss was noticed. A suspended process wakes up past its deadlines, with broken connections and a cluster
// that another run has changed. A cluster that is still held outranks the loss.
func (r *Runner) explain(ctx context.Context, err error) error {
	if err != nil && r.fence.Epoch() != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAnswer)
		defer cancel()
		_ = r.fence.Confirm(ctx) // records a loss
	}
	lost := r.fence.Loss()
	if err == nil || lost == nil || failure.Is(err, failure.Conflict) || failure.Is(err, failure.Held) {
		return err
	}
	return failure.New(failure.Conflict, r.cfg.Operation, r.cfg.Lock.String(), "%w; before that was noticed: %w", lost,
		err)
}

// Check runs steps that change nothing, without a journal.
func (r *Runner) Check(ctx context.Context, steps ...phase.Step) error {
	engine := phase.New(phase.Config{Run: r.cfg.Run, Sink: r.cfg.Sink, Log: r.cfg.Log, Journal: phase.NoJournal{}})
	return engine.Run(ctx, steps)
}

// ExpectDuration shows how long the run should take, by ask, and journals it unless an earlier process has: the report
// compares it with the actual time. Ask gets what an earlier process journalled, and returns nil and "" if unknown.
func (r *Runner) ExpectDuration(
	s *phase.Scope, ask func(earlier json.RawMessage) (expected json.RawMessage, text string),
) {
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
