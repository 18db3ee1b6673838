package phase

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// undoRun undoes the steps that began and returns the errors of those that could not be undone.
func (e *Engine) undoRun(ctx context.Context) []error {
	e.writer.hurry()
	steps := make([]Step, 0, len(e.order))
	for _, step := range e.order {
		steps = append(steps, *step)
	}
	return e.undoAll(ctx, steps)
}

// undoAll undoes the steps that began and returns the errors of those that could not be undone. The end of ctx does not
// stop it; a StopError bounds it.
func (e *Engine) undoAll(ctx context.Context, steps []Step) []error {
	for _, first := range []bool{true, false} {
		for i := len(steps) - 1; i >= 0; i-- {
			step := e.began[steps[i].Name]
			if step == nil || step.Undo.Do == nil || step.Undo.First != first {
				continue
			}
			e.undo(ctx, step)
		}
	}
	var errs []error
	for i := range steps {
		if err := e.notUndone[steps[i].Name]; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// undo does not wait for the journal if it releases something, which must not depend on object storage. An undo that
// checks the lock depends on it anyway, and waits.
func (e *Engine) undo(ctx context.Context, step *Step) {
	e.writer.add(Record{Type: RecordUndo, Step: step.Name}, nil)
	s := e.scope(step)
	s.emit(UndoStarted, "")
	limit := undoLimit(ctx, step)
	ctx, span := tracing.Start(context.WithoutCancel(ctx), "undo "+step.Name)
	undo := e.fenced(step.Undo.Unfenced, e.cfg.Fence.Confirm, step.Undo.Do)
	err := within(ctx, "undo "+step.Name, limit, func(ctx context.Context) error {
		if step.Undo.Unfenced == "" {
			e.awaitRecord(ctx, min(maxRecordWait, limit/2))
		}
		return e.call(ctx, undo, s)
	})
	span.End(err)
	if err != nil {
		s.warnKept(err)
		err = failure.Annotate(err, "undo "+step.Name, "")
		e.notUndone[step.Name] = err
		e.writer.add(Record{Type: RecordUndoFail, Step: step.Name, Error: err.Error()}, nil)
		s.emit(UndoFailed, err.Error())
		return
	}
	delete(e.notUndone, step.Name)
	delete(e.began, step.Name)
	e.writer.add(Record{Type: RecordUndone, Step: step.Name}, nil)
	s.emit(UndoFinished, "")
}

// maxRecordWait is how long an undo waits for its record.
const maxRecordWait = 10 * time.Second

// awaitRecord waits a while until the undo's record is durable: a process that resumes the run must know that the run's
// resources may be incomplete. Without the record the undo proceeds anyway, rather than leave resources behind.
func (e *Engine) awaitRecord(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = e.writer.flush(ctx) // the run's end reports that the journal cannot be written
}
