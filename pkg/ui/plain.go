package ui

import (
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// quiet is how long a plain log stays silent while something is running.
const quiet = 30 * time.Second

// plain writes a line per change, and one every 30 s without a change.
type plain struct {
	out  *stream
	now  activities
	last time.Time // of the last line
}

func newPlain(out *stream) *plain { return &plain{out: out, last: time.Now()} }

func (p *plain) event(e phase.Event, at time.Time) {
	p.now.apply(e, at)
	if line := plainLine(e); line != "" {
		p.line(e.Time, line, at)
	}
}

func (p *plain) line(stamp time.Time, line string, at time.Time) {
	p.out.print(stamp.UTC().Format(time.RFC3339) + " " + line + "\n")
	p.last = at
}

func plainLine(e phase.Event) string {
	subject := e.Phase
	if e.Step != "" {
		subject += ": " + e.Step
	}
	message := clean(e.Message)
	switch e.Type {
	case phase.PhaseStarted, phase.StepStarted:
		return subject + ": started"
	case phase.StepFinished:
		return subject + ": done in " + took(e.Elapsed)
	case phase.PhaseFinished:
		return subject + ": " + message + " in " + took(e.Elapsed)
	case phase.StepFailed:
		return subject + ": failed after " + took(e.Elapsed) + ": " + firstReason(e.Message)
	case phase.Note:
		return strings.TrimPrefix(subject+": "+message, ": ")
	case phase.Warning:
		return "warning: " + strings.TrimPrefix(subject+": "+message, ": ")
	case phase.UndoStarted:
		return "undo " + e.Step + ": started"
	case phase.UndoFinished:
		return "undo " + e.Step + ": done in " + took(e.Elapsed)
	case phase.UndoFailed:
		return "undo " + e.Step + ": failed after " + took(e.Elapsed) + ": " + message
	case phase.Progress:
	}
	return ""
}

func (p *plain) text(lines []byte) { p.out.print(string(lines)) }

func (p *plain) tick(now time.Time) time.Duration {
	if left := quiet - now.Sub(p.last); left > 0 {
		return left
	}
	p.last = now
	if first := p.now.first(); first.active {
		first.meter.observe(first.done, now)
		p.line(now, p.status(now), now)
	}
	return quiet
}

func (p *plain) status(now time.Time) string {
	t := p.now.first()
	subject := t.label
	if t.step != "" {
		subject += ": " + t.step
	}
	amount := t.amount()
	if percent := t.percent(); percent != "" {
		amount += " (" + percent + ")"
	}
	return subject + ": " +
		join(amount, t.rate(), t.eta(), "running for "+now.Sub(t.start).Truncate(time.Second).String())
}

func (p *plain) finish(time.Time) {}
