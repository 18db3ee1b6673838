package phase

import (
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/failure"
)

// beginJournal lets the journal be written from now on. The first step of a new run that changes something asks
// Config.Begin before that; an error of it leaves no journal.
func (e *Engine) beginJournal(ctx context.Context, step *Step) error {
	e.beginning.Lock()
	defer e.beginning.Unlock()
	if e.cfg.Begin != nil && len(e.history.Records) == 0 && !e.writer.isStarted() {
		var about any
		err := within(ctx, step.Name, step.Deadline, func(ctx context.Context) (err error) {
			about, err = e.cfg.Begin(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if err := e.writer.describe(about); err != nil {
			return err
		}
	}
	e.writer.start()
	return nil
}

func (w *writer) isStarted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

// describe sets what the first record says, before it is written.
func (w *writer) describe(about any) error {
	body, err := json.Marshal(about)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "encode journal record", string(w.run))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue[0].Data = body
	return nil
}
