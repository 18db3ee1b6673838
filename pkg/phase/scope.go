package phase

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Scope is what a step sees of its run. It is safe for concurrent use.
type Scope struct {
	// Run is the run's id.
	Run cluster.RunID
	// Log carries the run and step as fields.
	Log *zap.Logger

	step   *Step
	engine *Engine
	writer *writer

	mu          sync.Mutex
	start       time.Time
	done, total int64
	unit        string
	parts       []Part
	warned      []string
}

// Intent journals an imminent effect and returns when the record is durable.
func (s *Scope) Intent(ctx context.Context, name string, data any) error {
	s.writer.add(Record{Type: RecordIntent, Step: s.step.Name, Name: name}, data)
	return s.writer.flush(ctx)
}

// Result journals an effect's result. It does not wait; the step's end does.
func (s *Scope) Result(name string, data any) {
	s.writer.add(Record{Type: RecordResult, Step: s.step.Name, Name: name}, data)
}

// seconds returns how long the step has run.
func (s *Scope) seconds() float64 { return time.Since(s.start).Seconds() }

// Expect sets the total; zero means unknown.
func (s *Scope) Expect(total int64, unit string) {
	s.mu.Lock()
	s.done, s.total, s.unit = 0, total, unit
	s.mu.Unlock()
	s.emit(Progress, "")
}

// Advance adds to the completed amount, which stays within the total if that is known.
func (s *Scope) Advance(n int64) {
	s.mu.Lock()
	if s.done += n; s.total > 0 {
		s.done = min(s.done, s.total)
	}
	s.mu.Unlock()
	s.emit(Progress, "")
}

// Reached sets the completed amount.
func (s *Scope) Reached(n int64) {
	s.mu.Lock()
	s.done = n
	s.mu.Unlock()
	s.emit(Progress, "")
}

// Note shows the user a remark.
func (s *Scope) Note(format string, args ...any) { s.emit(Note, fmt.Sprintf(format, args...)) }

// Warn shows the user something that needs attention but does not end the run; each text once per step, however often
// the step is tried.
func (s *Scope) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	known := slices.Contains(s.warned, text)
	if !known {
		s.warned = append(s.warned, text)
	}
	s.mu.Unlock()
	if !known {
		s.emit(Warning, text)
	}
}

// Part starts timing a part of the step; the returned function ends it. Parts may overlap.
func (s *Scope) Part(name string) func() {
	start := time.Now()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parts = append(s.parts, Part{Name: name, Seconds: time.Since(start).Seconds()})
	}
}

// timed returns the parts that have ended.
func (s *Scope) timed() []Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts)
}

func (s *Scope) emit(t EventType, message string) {
	s.mu.Lock()
	e := Event{
		Type: t, Time: time.Now().UTC(), Run: s.Run, Phase: s.step.Phase, Step: s.step.Name,
		Done: s.done, Total: s.total, Unit: s.unit, Elapsed: time.Since(s.start), Message: message,
	}
	s.mu.Unlock()
	s.engine.sink.Emit(e)
}
