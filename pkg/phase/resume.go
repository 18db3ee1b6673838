package phase

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Resume configures how another process resumes a run whose process died.
type Resume struct {
	// Admit names the step that excludes other processes. Before it is done, nothing is written to the journal: a run
	// that was never admitted leaves none, and one that exists may belong to another process; then it is read again.
	Admit string
	// Same refuses a journal whose first record has a different request. It is called before the first step.
	Same func(h *History) error
	// Epoch returns the admission's epoch: higher than that of every earlier process.
	Epoch func() int64
	// Adopt is called once, right after the admission. It discards what cannot be resumed: the retry group, if
	// incomplete. After an error the run can still be resumed.
	Adopt func(ctx context.Context, s *Scope, h *History) error
	// StartOver returns why this process must undo everything and redo all steps from scratch; "" to resume the run. It
	// is called after Adopt; after its error nothing is undone. If nil, a run that died while being undone is refused
	// before its first step.
	StartOver func(ctx context.Context, h *History) (why string, err error)
	// Reset, called once the rest is undone, forgets what the run knew of its earlier processes. Its error ends the
	// run.
	Reset func() error
	// Abort undoes the run instead of resuming it: Run succeeds if everything is undone.
	Abort bool
	// Ended also aborts a run that has ended, with an undo that failed.
	Ended bool
	// Keeps leaves a run that fails as it is, unfinished: nothing is undone, and another process resumes it.
	Keeps bool
}

// errAborted ends a run that is to be undone.
var errAborted = errors.New("aborted")

// check returns an error if this process cannot resume the run.
func (e *Engine) checkResume(h *History) error {
	if len(h.Records) == 0 {
		return nil
	}
	run := string(e.cfg.Run)
	switch {
	case h.Ended && e.cfg.Resume != nil && !(e.cfg.Resume.Abort && e.cfg.Resume.Ended):
		how := "it succeeded"
		if h.Error != "" {
			how = "it failed: " + h.Error
		}
		return failure.New(failure.Conflict, "start run", run, "this run has ended: %s", how).
			WithHint("omit --run-id, or choose another")
	case e.cfg.Resume != nil && h.Undoing() && !e.cfg.Resume.Abort && e.cfg.Resume.StartOver == nil:
		return failure.New(failure.Conflict, "resume run", run,
			"it was being undone when its process died, and cannot be resumed").
			WithHint("undo the rest with `tisnap runs abort %s --yes`, then run the command again without --run-id",
				run)
	case e.cfg.Resume != nil:
		return e.cfg.Resume.Same(h)
	case e.cfg.Fresh:
		return failure.New(failure.Conflict, "start run", run, "this run id has been used: its journal has %d records",
			len(h.Records)).
			WithHint("omit --run-id, or choose another")
	}
	return nil
}

// admitted resumes once other processes are excluded, with the current journal.
func (e *Engine) admitted(ctx context.Context, steps []Step, step *Step) error {
	rule := e.cfg.Resume
	if rule == nil || step.Name != rule.Admit {
		return nil
	}
	e.writer.admit(rule.Epoch())
	if !e.resumed {
		e.writer.begin()
		return nil
	}
	now, err := ReadHistory(ctx, e.cfg.Journal)
	if err != nil {
		return err
	}
	if len(now.Records) != e.writer.base {
		return e.overtaken(now)
	}
	e.writer.resume()
	s := e.scope(step)
	s.Note("resuming run %s, whose last record is of %s", e.cfg.Run,
		now.Records[len(now.Records)-1].Time.Format(time.RFC3339))
	adopt := e.fenced("", e.cfg.Fence.Confirm,
		func(ctx context.Context, s *Scope) error { return rule.Adopt(ctx, s, now) })
	if err := e.call(ctx, adopt, s); err != nil {
		e.open = true // nothing is undone: another process can retry; no other step is running yet
		return err
	}
	why := ""
	if rule.StartOver != nil && !rule.Abort {
		decide := e.fenced("", e.cfg.Fence.Confirm, func(ctx context.Context, _ *Scope) (err error) {
			why, err = rule.StartOver(ctx, now)
			return err
		})
		if err := e.call(ctx, decide, s); err != nil {
			e.open = true
			return err
		}
	}
	e.adopt(steps)
	if why == "" {
		e.cfg.Times.resume(now)
	}
	switch {
	case rule.Abort:
		return errAborted
	case why != "":
		return e.startOver(ctx, steps, step, why)
	}
	return nil
}

// overtaken reports what became of a run whose journal grew while this process waited for the lock.
func (e *Engine) overtaken(now *History) error {
	run := string(e.cfg.Run)
	switch {
	case now.Ended && now.Error == "":
		return failure.New(failure.Conflict, "resume run", run, "its process was alive, and has finished it").
			WithHint("there is nothing left to do: tisnap report %s shows it", run)
	case now.Ended:
		return failure.New(failure.Conflict, "resume run", run, "it has failed meanwhile: %s", now.Error).
			WithHint("run the same command again")
	}
	return failure.New(failure.Conflict, "resume run", run, "another process has worked on it meanwhile").
		WithHint("run the same command again")
}

// skip adopts a step that an earlier process completed.
func (e *Engine) skip(ctx context.Context, step *Step, data json.RawMessage) error {
	if step.Resume.State != nil && len(data) > 0 {
		if err := json.Unmarshal(data, step.Resume.State); err != nil {
			return failure.Wrap(err, failure.Corrupt, "resume step", step.Name)
		}
	}
	if step.Resume.Adopted != nil {
		if err := e.call(ctx, e.fenced("", e.cfg.Fence.Confirm, step.Resume.Adopted), e.scope(step)); err != nil {
			return failure.Annotate(err, "resume step", step.Name)
		}
	}
	e.remember(step)
	e.ended(step, true)
	e.timeStep(step, e.history.times[step.Name])
	return nil
}

// doneSteps maps completed steps, not undone since, to their states.
func doneSteps(records []Record) map[string]json.RawMessage {
	done := map[string]json.RawMessage{}
	for _, r := range records {
		switch r.Type {
		case RecordDone:
			done[r.Step] = r.Data
		case RecordUndo, RecordBegin:
			delete(done, r.Step)
		case RecordRetryGroup:
			for _, name := range r.group() {
				delete(done, name)
			}
		default: // does not show whether the step is done
		}
	}
	return done
}
