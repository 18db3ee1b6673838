package phase

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// journalDeadline bounds one write: object storage answers within a second or is unavailable.
const journalDeadline = 30 * time.Second

// writer appends records in order in the background, so that a step that releases something need not wait for them.
type writer struct {
	journal Journal
	run     cluster.RunID
	mu      sync.Mutex
	seq     int
	base    int   // records of earlier processes
	epoch   int64 // of the admission; 0 before it
	barred  bool  // another process may be the journal's writer
	queue   []Record
	err     error // first failure, after which nothing is written
	last    error // of the last failed try, which is retried
	started bool  // false while only read-only steps have run: the journal does not exist yet
	busy    bool
	idle    chan struct{} // closed when the queue has drained
	wg      sync.WaitGroup
	ctx     context.Context //nolint:containedctx // outlives each step; cancelled by close
	cancel  context.CancelFunc
	log     *zap.Logger
	// patience is how long a record is retried, until hurried; hasty steps' records are not retried.
	patience time.Duration
	hasty    map[string]bool
	hurried  context.Context //nolint:containedctx // ends with the run; no retries after that
	hurry    context.CancelFunc
}

func newWriter(ctx context.Context, cfg Config, seq int) *writer {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hurried, hurry := context.WithCancel(base)
	idle := make(chan struct{})
	close(idle)
	log := cfg.Log
	if log == nil {
		log = zap.NewNop()
	}
	return &writer{
		journal: cfg.Journal, run: cfg.Run, seq: seq, base: seq, idle: idle, ctx: base, cancel: cancel,
		log: log, patience: cfg.JournalPatience, hurried: hurried, hurry: hurry,
	}
}

// add queues a record. It never blocks.
func (w *writer) add(r Record, data any) {
	if data != nil {
		body, err := json.Marshal(data)
		if err != nil {
			w.fail(failure.Wrap(err, failure.Unknown, "encode journal record", r.Step))
			return
		}
		r.Data = body
	}
	r.Error = failure.Redact(r.Error) // anyone with access to the storage can read it
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	r.Seq, r.Run, r.Time, r.Epoch = w.seq, w.run, time.Now().UTC(), w.epoch
	w.queue = append(w.queue, r)
	if w.started && !w.busy {
		w.busy = true
		w.idle = make(chan struct{})
		w.wg.Go(w.drain)
	}
}

// waitForAdmission defers start until begin or resume.
func (w *writer) waitForAdmission() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.barred = true
}

// admit sets the epoch of all records from now on.
func (w *writer) admit(epoch int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch = epoch
}

// begin enables writing the records of a new run.
func (w *writer) begin() {
	w.mu.Lock()
	w.barred = false
	w.mu.Unlock()
	w.start()
}

// resume enables writing the records of a process that resumes a run: the first one records that.
func (w *writer) resume() {
	w.mu.Lock()
	first := Record{Type: RecordResumed, Run: w.run, Time: time.Now().UTC()}
	if len(w.queue) > 0 {
		first.Time = w.queue[0].Time
	}
	w.queue = append([]Record{first}, w.queue...)
	for i := range w.queue {
		w.queue[i].Seq, w.queue[i].Epoch = w.base+1+i, w.epoch
	}
	w.seq, w.barred = w.base+len(w.queue), false
	w.mu.Unlock()
	w.start()
}

// start enables writing; before it, records are only queued.
func (w *writer) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.barred {
		return
	}
	w.started = true
	if len(w.queue) > 0 && !w.busy {
		w.busy = true
		w.idle = make(chan struct{})
		w.wg.Go(w.drain)
	}
}

func (w *writer) drain() {
	for {
		w.mu.Lock()
		if len(w.queue) == 0 || w.err != nil {
			w.queue = nil
			w.busy = false
			close(w.idle)
			w.mu.Unlock()
			return
		}
		r := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		if err := w.append(r); err != nil {
			w.fail(err)
		}
	}
}

// append writes one record, retrying transient errors until patience or the run ends.
func (w *writer) append(r Record) error {
	end := time.Now().Add(w.patience)
	return wait.Reason(wait.Until(w.hurried, wait.Growing(minRetryInterval, maxRetryInterval), func() (bool, error) {
		ctx, cancel := context.WithTimeout(w.ctx, journalDeadline)
		defer cancel()
		err := w.journal.Append(ctx, r)
		if err == nil || w.hasty[r.Step] || !failure.Transient(err) || !time.Now().Before(end) {
			return true, err
		}
		w.mu.Lock()
		w.last = err
		w.mu.Unlock()
		w.log.Warn("cannot write a journal record; retrying", zap.Int("record", r.Seq), zap.Error(err))
		return false, err
	}))
}

// reason returns why records are late, or err if unknown.
func (w *writer) reason(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.last, err)
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// flush waits until all queued records are durable, or ctx ends.
func (w *writer) flush(ctx context.Context) error {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// close waits for the writer's goroutine. Queued records are still written, each within its deadline.
func (w *writer) close() error {
	w.hurry()
	w.wg.Wait()
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
