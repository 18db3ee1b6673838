package phase

import (
	"context"
	"errors"
)

// startOver undoes what is left of the run and restarts the engine at the first step. The admission stays; no step runs
// beside it. If something cannot be undone, the run stays unfinished: another process can retry.
func (e *Engine) startOver(ctx context.Context, steps []Step, admission *Step, why string) error {
	s := e.scope(admission)
	s.Note("%s: undoing what is left of run %s, then starting from scratch", why, e.cfg.Run)
	var rest []Step
	for _, step := range e.order {
		if step.Name != admission.Name {
			rest = append(rest, *step)
		}
	}
	if errs := e.undoAll(context.WithoutCancel(ctx), rest); len(errs) > 0 {
		e.open = true
		return errors.Join(errs...)
	}
	if e.cfg.Resume.Reset != nil {
		if err := e.cfg.Resume.Reset(); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(steps))
	for i := range steps {
		names = append(names, steps[i].Name)
	}
	e.writer.add(Record{Type: RecordRetryGroup, Step: steps[0].Name}, names)
	e.history.forget(steps)
	e.history.done[admission.Name] = nil // by this process
	e.mu.Lock()
	e.began, e.order = map[string]*Step{}, nil
	e.mu.Unlock()
	e.remember(admission)
	e.over = true
	return nil
}
