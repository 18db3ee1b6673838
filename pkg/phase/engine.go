package phase

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// Config configures an Engine.
type Config struct {
	Run     cluster.RunID
	Journal Journal
	Sink    Sink        // nil shows nothing
	Log     *zap.Logger // nil logs nothing
	// Fresh refuses a non-empty journal, for use cases that cannot resume.
	Fresh bool
	// Resume continues a run whose process died; nil refuses one with Fresh.
	Resume *Resume
	// Fence stops a process that may have lost its lock: every step, undo and adoption checks it, as does each of their
	// calls that changes something, except those with a reason not to (Step.Unfenced, Undo.Unfenced). Nil for a run
	// without a lock.
	Fence fenced.Fence
	// Begin is called once in a new run, right before the first step that changes something starts the journal, and
	// within that step's deadline. Its result goes into the first record, as the description of the run. Its error ends
	// the run and leaves no journal. Nil for a run without a description.
	Begin func(ctx context.Context) (about any, err error)
	// JournalPatience is how long a record is retried while the journal's store does not answer; zero tries once. The
	// end of a run waits for one try only, and so do the steps of Group before its last one, because a live cluster is
	// held meanwhile.
	JournalPatience time.Duration
	// Group is the one group of steps that may be attempted more than once; nil for none.
	Group *RetryGroup
	// Times are journalled with completed steps, so that a process that resumes the run has those of earlier processes;
	// nil for a run without.
	Times *StoreTimes
	// Serial runs the steps one after another in list order, ignoring After.
	Serial bool
}

// Engine runs steps once. It is not safe for concurrent use.
type Engine struct {
	cfg     Config
	sink    Sink
	log     *zap.Logger
	writer  *writer
	history *History
	resumed bool // an earlier process has begun the run

	beginning sync.Mutex

	mu     sync.Mutex // guards what follows: steps may run concurrently
	phases phases
	began  map[string]*Step
	order  []*Step // that began: completed ones by their end, then running ones by their begin
	// notUndone holds the last failed undo of each step not undone since.
	notUndone map[string]error
	attempts  []Attempt
	late      bool // a step was begun whose record is not durable
	open      bool // the run is unfinished although this process is done
	over      bool // earlier processes' work is undone: begin with the first step
}

// New returns an engine for one run.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg: cfg, sink: cfg.Sink, log: cfg.Log, began: map[string]*Step{}, notUndone: map[string]error{},
		phases: phases{open: map[string]openPhase{}},
	}
	if e.cfg.Fence == nil {
		e.cfg.Fence = new(fenced.None)
	}
	if e.sink == nil {
		e.sink = Discard{}
	}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	return e
}

// Before lists the run's earlier processes; valid after Run returned.
func (e *Engine) Before() []Process {
	if e.history == nil {
		return nil
	}
	return e.history.Processes()
}

// Journalled reports whether this process wrote to the run's journal. Before the admission of Config.Resume none does.
func (e *Engine) Journalled() bool { return e.writer != nil && e.writer.isStarted() }

// Timings are the phases so far; valid after Run returned.
func (e *Engine) Timings() Timings { return e.phases.timings }

// Run executes the steps, each as soon as its predecessors are done. If the journal already has records, completed
// steps are skipped and their State is restored. When a step fails, or ctx ends, running steps are cancelled, except
// those that decide, and awaited; then every step that began is undone: those with Undo.First before the others, each
// group in reverse order of completion. The error joins the cause and every failed undo that no later one repaired. A
// step's panic is an error like any other.
func (e *Engine) Run(ctx context.Context, steps []Step) error {
	plan, err := e.plan(steps)
	if err != nil {
		return err
	}
	if e.history, err = ReadHistory(ctx, e.cfg.Journal); err != nil {
		return err
	}
	if err := e.checkResume(e.history); err != nil {
		return err
	}
	records := len(e.history.Records)
	e.resumed = records > 0 && e.cfg.Resume != nil
	e.writer = newWriter(ctx, e.cfg, records)
	e.writer.hasty = e.hasty(steps)
	if e.cfg.Resume != nil {
		e.writer.waitForAdmission()
	}
	switch {
	case e.resumed:
		e.prepare(steps)
	case records > 0:
		e.writer.start()
	default:
		e.writer.add(Record{Type: RecordRun}, nil)
	}
	err = plan.run(ctx)
	end := Record{Type: RecordEnd}
	switch {
	case err != nil && e.cfg.Resume != nil && e.cfg.Resume.Keeps && !e.cfg.Resume.Abort:
		e.open = true
	case err != nil:
		left := e.undoRun(ctx)
		aborted := errors.Is(err, errAborted) && len(left) == 0
		err = errors.Join(append([]error{err}, left...)...)
		if end.Error = err.Error(); aborted {
			err = nil
		}
	}
	if !e.open {
		e.writer.add(end, nil)
	}
	if closeErr := e.writer.close(); closeErr != nil && err == nil {
		// All steps are done; only their last records are missing.
		return failure.Wrap(closeErr, failure.Partial, "write the last records of a completed run",
			string(e.cfg.Run))
	}
	return err
}

// remember records that the step began.
func (e *Engine) remember(step *Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.order, func(s *Step) bool { return s.Name == step.Name }) {
		e.order = append(e.order, step)
	}
	e.began[step.Name] = step
}

// ended records that the step ended and, if it is done, that it ended the effects of others.
func (e *Engine) ended(step *Step, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.IndexFunc(e.order, func(s *Step) bool { return s.Name == step.Name }); i >= 0 {
		e.order = append(slices.Delete(e.order, i, i+1), step)
	}
	if !done {
		return
	}
	for _, ended := range step.Order.Ends {
		delete(e.began, ended)
	}
}

func (e *Engine) do(ctx context.Context, step *Step, span tracing.Span) error {
	if err := ctx.Err(); err != nil {
		return failure.Annotate(context.Cause(ctx), step.Name, "")
	}
	s := e.scope(step) // its time starts here: journalling the intent is part of the step
	if !step.ReadOnly {
		if err := e.beginJournal(ctx, step); err != nil {
			return failure.Annotate(err, "begin "+step.Name, "")
		}
	}
	e.writer.add(Record{Type: RecordBegin, Step: step.Name}, nil)
	if err := e.journalled(ctx, step, s); err != nil {
		return failure.Annotate(err, "begin "+step.Name, "")
	}
	e.remember(step)
	s.emit(StepStarted, "")
	ctx, span = tracing.Start(span.In(ctx), step.Name)
	err := within(ctx, step.Name, step.Deadline, func(ctx context.Context) error { return e.try(ctx, step, s) })
	span.End(err)
	e.finish(step, s, err)
	e.ended(step, err == nil)
	if err != nil {
		e.writer.add(Record{Type: RecordFailed, Step: step.Name, Error: err.Error(), Seconds: s.seconds()}, nil)
		return err
	}
	e.writer.add(Record{
		Type: RecordDone, Step: step.Name, Seconds: s.seconds(), Parts: s.timed(), Stores: e.cfg.Times.take(),
	}, step.Resume.State)
	return nil
}

func (e *Engine) scope(step *Step) *Scope {
	return &Scope{
		Run: e.cfg.Run, Log: e.log.With(zap.String("step", step.Name)),
		step: step, engine: e, writer: e.writer, start: time.Now(),
	}
}

// within runs f under a deadline; its error names the deadline that passed.
func within(ctx context.Context, what string, limit time.Duration, f func(context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(inner)
	if err != nil && errors.Is(inner.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return deadlineError(err, what, limit)
	}
	return err
}

// journalled waits until the step's begin record is durable. A step that can do without begins with a warning after the
// time of one try; later steps do not wait again.
func (e *Engine) journalled(ctx context.Context, step *Step, s *Scope) error {
	switch {
	case step.Record.NoWait || step.ReadOnly:
		return nil
	case !step.Record.MayBeLate:
		return e.writer.flush(ctx)
	case e.isLate():
		return nil
	}
	short, cancel := context.WithTimeout(ctx, journalDeadline)
	defer cancel()
	err := e.writer.flush(short)
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.mu.Lock()
	e.late = true
	e.mu.Unlock()
	s.Warn("the journal was not written in time; continuing without it: %v", e.writer.reason(err))
	return nil
}

func (e *Engine) isLate() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.late
}
