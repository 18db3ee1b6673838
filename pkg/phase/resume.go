package phase

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// skip takes over a step that an earlier process of the run has done.
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

// doneSteps maps the steps that are done, and were not undone since, to their states.
func doneSteps(records []Record) map[string]json.RawMessage {
	done := map[string]json.RawMessage{}
	for _, r := range records {
		switch r.Type {
		case RecordDone:
			done[r.Step] = r.Data
		case RecordUndo, RecordBegin:
			delete(done, r.Step)
		case RecordRetryGroup:
			var names []string
			if json.Unmarshal(r.Data, &names) == nil {
				for _, name := range names {
					delete(done, name)
				}
			}
		default: // says nothing about whether the step is done
		}
	}
	return done
}
