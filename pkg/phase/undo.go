package phase

import (
	"context"

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

// undoAll undoes those of the steps that began and returns the errors of those that could not be undone. The end of ctx
// does not end it; a StopError bounds it.
func (e *Engine) undoAll(ctx context.Context, steps []Step) []error {
	for _, first := range []bool{true, false} {
		for i := len(steps) - 1; i >= 0; i-- {
			step := e.began[steps[i].Name]
			if step == nil || step.Undo == nil || step.UndoFirst != first {
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

// undo does not wait for the journal: letting go must not depend on object storage.
func (e *Engine) undo(ctx context.Context, step *Step) {
	e.writer.add(Record{Type: RecordUndo, Step: step.Name}, nil)
	s := e.scope(step)
	s.emit(UndoStarted, "")
	limit := undoLimit(ctx, step)
	ctx, span := tracing.Start(context.WithoutCancel(ctx), "undo "+step.Name)
	undo := e.fenced(step.UndoUnfenced, e.cfg.Fence.Confirm, step.Undo)
	err := within(ctx, "undo "+step.Name, limit, func(ctx context.Context) error { return e.call(ctx, undo, s) })
	span.End(err)
	if err != nil {
		s.sayKept(err)
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
