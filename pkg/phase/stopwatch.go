package phase

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/tracing"
)

// finish records the step's time and shows its outcome.
func (e *Engine) finish(step *Step, s *Scope, err error) {
	t := StepTiming{
		Name: step.Name, Start: s.start.UTC(), Seconds: time.Since(s.start).Seconds(), Outcome: Done, Parts: s.timed(),
	}
	if err != nil {
		t.Outcome = Failed
		e.timeStep(step, t)
		s.emit(StepFailed, err.Error())
		return
	}
	e.timeStep(step, t)
	s.emit(StepFinished, "")
}

// phases are the timings of the phases so far. Phases of different names may be open concurrently.
type phases struct {
	timings Timings
	open    map[string]openPhase
	// ends is when each phase ended, by the monotonic clock; zero for one that is open.
	ends []time.Time
}

// openPhase is a running phase.
type openPhase struct {
	index int // of its timing
	begun time.Time
	span  tracing.Span
}

// openPhase begins the phase of a starting step, unless it is already open. It returns the phase's span.
func (e *Engine) openPhase(ctx context.Context, step *Step, attempt int) tracing.Span {
	e.mu.Lock()
	p := &e.phases
	if open, ok := p.open[step.Phase]; ok {
		e.mu.Unlock()
		return open.span
	}
	_, span := tracing.Start(ctx, step.Phase, "tisnap.run", string(e.cfg.Run), "tisnap.attempt",
		strconv.Itoa(max(attempt, 1)))
	now := time.Now()
	p.open[step.Phase] = openPhase{index: len(p.timings), begun: now, span: span}
	p.timings = append(p.timings, Timing{Phase: step.Phase, Start: now.UTC(), Attempt: attempt})
	p.ends = append(p.ends, time.Time{})
	e.mu.Unlock()
	e.sink.Emit(Event{Type: PhaseStarted, Time: now.UTC(), Run: e.cfg.Run, Phase: step.Phase})
	return span
}

func (e *Engine) timeStep(step *Step, t StepTiming) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := &e.phases.timings[e.phases.open[step.Phase].index]
	p.Steps = append(p.Steps, t)
}

// closePhase ends a phase.
func (e *Engine) closePhase(name string, err error) {
	outcome := Done
	if err != nil {
		outcome = Failed
	}
	e.mu.Lock()
	phases := &e.phases
	open := phases.open[name]
	delete(phases.open, name)
	now := time.Now()
	phases.ends[open.index] = now
	p, elapsed := &phases.timings[open.index], now.Sub(open.begun)
	p.Seconds, p.Outcome = elapsed.Seconds(), outcome
	for _, s := range p.Steps {
		if s.Outcome == Skipped { // its time belongs to another process
			p.Seconds, p.Start = p.Seconds+s.Seconds, earlier(p.Start, s.Start)
		}
	}
	p.OverlapSeconds = phases.overlap(open, now).Seconds()
	e.mu.Unlock()
	open.span.End(err)
	e.sink.Emit(Event{
		Type: PhaseFinished, Time: now.UTC(), Run: e.cfg.Run, Phase: name, Elapsed: elapsed, Message: string(outcome),
	})
}

// overlap returns for how long an ending phase overlapped with phases that began earlier.
func (p *phases) overlap(ending openPhase, now time.Time) time.Duration {
	until := ending.begun
	for _, end := range p.ends[:ending.index] {
		switch {
		case end.IsZero():
			return now.Sub(ending.begun)
		case end.After(until):
			until = end
		}
	}
	return until.Sub(ending.begun)
}

// closePhases closes phases that are still open without a running step: the run ended before their last one.
func (e *Engine) closePhases(err error) {
	e.mu.Lock()
	names := slices.Sorted(maps.Keys(e.phases.open))
	e.mu.Unlock()
	for _, name := range names {
		e.closePhase(name, err)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
