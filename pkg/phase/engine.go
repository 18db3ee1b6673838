package phase

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Config is what an Engine needs.
type Config struct {
	Run     cluster.RunID
	Journal Journal
	Sink    Sink        // nil shows nothing
	Log     *zap.Logger // nil logs nothing
	// Fresh refuses a journal that has records: for use cases that cannot be resumed.
	Fresh bool
	// About is written with the journal's first record: what the run is, for a person or gc.
	About any
}

// Engine runs steps once. It is not safe for concurrent use.
type Engine struct {
	cfg     Config
	sink    Sink
	log     *zap.Logger
	writer  *writer
	timings Timings
	began   map[string]*Step
	order   []*Step
}

// New makes an engine for one run.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, sink: cfg.Sink, log: cfg.Log, began: map[string]*Step{}}
	if e.sink == nil {
		e.sink = Discard{}
	}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	return e
}

// Timings are the phases so far; valid after Run returned.
func (e *Engine) Timings() Timings { return e.timings }

// Run carries the steps out in order. If the journal holds records already, steps that are done are
// skipped and their State is restored. When a step fails, or ctx ends, the steps that began are undone:
// those with UndoFirst before the others, each group in reverse order. The error joins the cause and
// every failed undo.
func (e *Engine) Run(ctx context.Context, steps []Step) error {
	if err := validate(steps); err != nil {
		return err
	}
	records, err := e.cfg.Journal.Records(ctx)
	if err != nil {
		return err
	}
	if e.cfg.Fresh && len(records) > 0 {
		return failure.New(failure.Conflict, "start run", string(e.cfg.Run), "this run id has been used: its journal has %d records", len(records)).
			WithHint("leave --run-id out, or choose another")
	}
	finished := doneSteps(records)
	e.writer = newWriter(ctx, e.cfg.Journal, e.cfg.Run, len(records))
	if len(records) > 0 {
		e.writer.start()
	} else {
		e.writer.add(Record{Type: RecordRun}, e.cfg.About)
	}
	err = e.forward(ctx, steps, finished)
	if err != nil {
		err = errors.Join(append([]error{err}, e.backward(ctx)...)...)
	}
	end := Record{Type: RecordEnd}
	if err != nil {
		end.Error = err.Error()
	}
	e.writer.add(end, nil)
	if closeErr := e.writer.close(); closeErr != nil && err == nil {
		// All steps are done: only their last records are missing.
		return failure.Wrap(closeErr, failure.Partial, "write the last records of a run that is done", string(e.cfg.Run))
	}
	return err
}

func (e *Engine) forward(ctx context.Context, steps []Step, finished map[string]json.RawMessage) error {
	for i := range steps {
		step := &steps[i]
		e.openPhase(step)
		data, skip := finished[step.Name]
		var err error
		if skip {
			err = e.skip(step, data)
		} else {
			err = e.do(ctx, step)
		}
		last := i == len(steps)-1 || steps[i+1].Phase != step.Phase
		if last || err != nil {
			e.closePhase(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) skip(step *Step, data json.RawMessage) error {
	if step.State != nil && len(data) > 0 {
		if err := json.Unmarshal(data, step.State); err != nil {
			return failure.Wrap(err, failure.Corrupt, "resume step", step.Name)
		}
	}
	e.remember(step)
	e.timeStep(StepTiming{Name: step.Name, Start: time.Now().UTC(), Outcome: Skipped})
	return nil
}

// remember notes that the step began, and that it ended the effect of another.
func (e *Engine) remember(step *Step) {
	if _, known := e.began[step.Name]; !known {
		e.order = append(e.order, step)
	}
	e.began[step.Name] = step
}

func (e *Engine) do(ctx context.Context, step *Step) error {
	if err := ctx.Err(); err != nil {
		return failure.Annotate(context.Cause(ctx), step.Name, "")
	}
	e.writer.add(Record{Type: RecordBegin, Step: step.Name}, nil)
	if !step.ReadOnly {
		e.writer.start()
	}
	if !step.NoWait && !step.ReadOnly {
		if err := e.writer.flush(ctx); err != nil {
			return failure.Annotate(err, "begin "+step.Name, "")
		}
	}
	e.remember(step)
	s := e.scope(step)
	s.emit(StepStarted, "")
	err := within(ctx, step.Name, step.Deadline, func(ctx context.Context) error { return e.try(ctx, step, s) })
	t := StepTiming{
		Name: step.Name, Start: s.start.UTC(), Seconds: time.Since(s.start).Seconds(), Outcome: Done, Parts: s.parts,
	}
	if err != nil {
		t.Outcome = Failed
		e.timeStep(t)
		e.writer.add(Record{Type: RecordFailed, Step: step.Name, Error: err.Error()}, nil)
		s.emit(StepFailed, err.Error())
		return err
	}
	e.timeStep(t)
	for _, ended := range step.Ends {
		delete(e.began, ended)
	}
	e.writer.add(Record{Type: RecordDone, Step: step.Name}, step.State)
	s.emit(StepFinished, "")
	return nil
}

// The waits between tries of a step.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// try calls Do once, or again and again for a step with Retry.
func (e *Engine) try(ctx context.Context, step *Step, s *Scope) error {
	for interval := firstRetry; ; interval = min(2*interval, lastRetry) {
		err := step.Do(ctx, s)
		kind := failure.KindOf(err)
		if err == nil || !step.Retry || (kind != failure.Unknown && kind != failure.Limited) {
			return err
		}
		s.Note("trying again: %v", err)
		if wait.For(ctx, interval) != nil {
			return err
		}
	}
}

// backward undoes the steps that began and returns the errors of those that could not be undone.
func (e *Engine) backward(ctx context.Context) []error {
	var errs []error
	base := context.WithoutCancel(ctx)
	for _, first := range []bool{true, false} {
		for i := len(e.order) - 1; i >= 0; i-- {
			step := e.order[i]
			if step.UndoFirst != first || step.Undo == nil || e.began[step.Name] == nil {
				continue
			}
			if err := e.undo(base, step); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// undo does not wait for the journal: letting go must not depend on object storage.
func (e *Engine) undo(ctx context.Context, step *Step) error {
	e.writer.add(Record{Type: RecordUndo, Step: step.Name}, nil)
	s := e.scope(step)
	s.emit(UndoStarted, "")
	err := within(ctx, "undo "+step.Name, step.undoDeadline(), func(ctx context.Context) error { return step.Undo(ctx, s) })
	if err != nil {
		err = failure.Annotate(err, "undo "+step.Name, "")
		e.writer.add(Record{Type: RecordUndoFail, Step: step.Name, Error: err.Error()}, nil)
		s.emit(UndoFailed, err.Error())
		return err
	}
	e.writer.add(Record{Type: RecordUndone, Step: step.Name}, nil)
	s.emit(UndoFinished, "")
	return nil
}

func (e *Engine) scope(step *Step) *Scope {
	return &Scope{
		Run: e.cfg.Run, Log: e.log.With(zap.String("step", step.Name)),
		step: step, engine: e, writer: e.writer, start: time.Now(),
	}
}

func (e *Engine) openPhase(step *Step) {
	if n := len(e.timings); n > 0 && e.timings[n-1].Phase == step.Phase && e.timings[n-1].Outcome == "" {
		return
	}
	e.timings = append(e.timings, Timing{Phase: step.Phase, Start: time.Now()})
	e.sink.Emit(Event{Type: PhaseStarted, Time: time.Now().UTC(), Run: e.cfg.Run, Phase: step.Phase})
}

func (e *Engine) timeStep(t StepTiming) {
	p := &e.timings[len(e.timings)-1]
	p.Steps = append(p.Steps, t)
}

func (e *Engine) closePhase(err error) {
	p := &e.timings[len(e.timings)-1]
	elapsed := time.Since(p.Start)
	p.Seconds, p.Outcome, p.Start = elapsed.Seconds(), Done, p.Start.UTC()
	if err != nil {
		p.Outcome = Failed
	}
	e.sink.Emit(Event{
		Type: PhaseFinished, Time: time.Now().UTC(), Run: e.cfg.Run, Phase: p.Phase, Elapsed: elapsed, Message: string(p.Outcome),
	})
}

// within runs f under a deadline and says which one passed.
func within(ctx context.Context, what string, limit time.Duration, f func(context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(inner)
	if err != nil && errors.Is(inner.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return deadlineError(err, what, limit)
	}
	return err
}

// doneSteps maps the steps that are done, and were not undone since, to their states.
func doneSteps(records []Record) map[string]json.RawMessage {
	done := map[string]json.RawMessage{}
	for _, r := range records {
		switch r.Type {
		case RecordDone:
			done[r.Step] = r.Data
		case RecordUndo, RecordBegin:
			delete(done, r.Step)
		default: // says nothing about whether the step is done
		}
	}
	return done
}
