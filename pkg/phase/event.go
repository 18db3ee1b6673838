package phase

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// EventType is what happened.
type EventType string

// The events of a run, in the order in which they can come.
const (
	PhaseStarted  EventType = "phase-started"
	StepStarted   EventType = "step-started"
	Progress      EventType = "progress"
	Note          EventType = "note"
	Warning       EventType = "warning"
	StepFinished  EventType = "step-finished"
	StepFailed    EventType = "step-failed"
	PhaseFinished EventType = "phase-finished"
	UndoStarted   EventType = "undo-started"
	UndoFinished  EventType = "undo-finished"
	UndoFailed    EventType = "undo-failed"
)

// Event is something that a renderer may show. Renderers never affect the run.
type Event struct {
	Type    EventType     `json:"type"`
	Time    time.Time     `json:"time"`
	Run     cluster.RunID `json:"run"`
	Phase   string        `json:"phase"`
	Step    string        `json:"step,omitempty"`
	Done    int64         `json:"done,omitempty"`
	Total   int64         `json:"total,omitempty"` // 0 while unknown
	Unit    string        `json:"unit,omitempty"`  // "volumes", "regions", …
	Elapsed time.Duration `json:"-"`               // since the phase (or step) started
	Message string        `json:"message,omitempty"`
}

// Sink consumes events. Emit must not block for long; it may be called from several goroutines.
type Sink interface {
	Emit(Event)
}

// Discard is a Sink that shows nothing.
type Discard struct{}

// Emit does nothing.
func (Discard) Emit(Event) {}
