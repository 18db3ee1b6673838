package phase

import (
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/failure"
)

// beginJournal enables writing the journal. In a new run, the first step that changes something calls Config.Begin
// before that; its error leaves no journal.
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

// describe sets the content of the first record before it is written.
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
