package phase

import (
	"context"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/tracing"
)

// finish times the step and shows how it ended.
func (e *Engine) finish(step *Step, s *Scope, err error) {
	t := StepTiming{
		Name: step.Name, Start: s.start.UTC(), Seconds: time.Since(s.start).Seconds(), Outcome: Done, Parts: s.parts,
	}
	if err != nil {
		t.Outcome = Failed
		e.timeStep(t)
		s.emit(StepFailed, err.Error())
		return
	}
	e.timeStep(t)
	s.emit(StepFinished, "")
}

func (e *Engine) openPhase(ctx context.Context, step *Step, attempt int) {
	if n := len(e.timings); n > 0 && e.timings[n-1].Phase == step.Phase && e.timings[n-1].Outcome == "" {
		return
	}
	_, e.span = tracing.Start(ctx, step.Phase, "tisnap.run", string(e.cfg.Run), "tisnap.attempt", strconv.Itoa(max(attempt, 1)))
	e.timings = append(e.timings, Timing{Phase: step.Phase, Start: time.Now(), Attempt: attempt})
	e.sink.Emit(Event{Type: PhaseStarted, Time: time.Now().UTC(), Run: e.cfg.Run, Phase: step.Phase})
}

func (e *Engine) timeStep(t StepTiming) {
	p := &e.timings[len(e.timings)-1]
	p.Steps = append(p.Steps, t)
}

func (e *Engine) closePhase(err error) {
	e.span.End(err)
	p := &e.timings[len(e.timings)-1]
	elapsed := time.Since(p.Start)
	p.Seconds, p.Outcome, p.Start = elapsed.Seconds(), Done, p.Start.UTC()
	if err != nil {
		p.Outcome = Failed
	}
	e.sink.Emit(Event{
		Type: PhaseFinished, Time: time.Now().UTC(), Run: e.cfg.Run, Phase: p.Phase, Elapsed: elapsed, Message: string(p.Outcome),
	})
}
