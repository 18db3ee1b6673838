package ui

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/phase"
)

const (
	repaint    = 100 * time.Millisecond
	labelWidth = 20
	timeWidth  = 9
	barWidth   = 16
)

// tty keeps one live line for the current activity below the lines of what has ended.
type tty struct {
	out     *stream
	width   func() int
	style   style
	all     activities
	now     *activity // what the live line shows
	frame   int
	painted string // the live line as it is on the screen; "" is none
}

func newTTY(out *stream, o Options) *tty {
	return &tty{out: out, now: &activity{}, width: o.Width, style: o.style()}
}

func (t *tty) event(e phase.Event, at time.Time) {
	t.all.apply(e, at)
	t.now = t.all.first()
	if line := t.lasting(e); line != "" {
		t.above(line + "\n")
	}
	t.paint(at)
}

// lasting returns the line that an event leaves on the screen permanently.
func (t *tty) lasting(e phase.Event) string {
	message := clean(e.Message)
	switch e.Type {
	case phase.PhaseFinished:
		if message == string(phase.Failed) {
			return t.ended(t.style.cross(), e.Phase, e.Elapsed)
		}
		return t.ended(t.style.tick(), e.Phase, e.Elapsed)
	case phase.UndoFinished:
		return t.ended(t.style.tick(), "undo "+e.Step, e.Elapsed)
	case phase.UndoFailed:
		return t.ended(t.style.cross(), "undo "+e.Step, e.Elapsed) + "  " + t.style.paint(red, message)
	case phase.StepFailed:
		return t.style.cross() + " " + e.Step + ": " + firstReason(e.Message)
	case phase.Note:
		return "  " + t.style.paint(faint, message)
	case phase.Warning:
		return t.style.paint(yellow, "! "+message)
	case phase.PhaseStarted, phase.StepStarted, phase.StepFinished, phase.UndoStarted, phase.Progress:
	}
	return ""
}

func (t *tty) ended(mark, label string, d time.Duration) string {
	return mark + " " + pad(label, labelWidth) + " " + padLeft(took(d), timeWidth)
}

func (t *tty) text(lines []byte) { t.above(string(lines)) }

// above prints whole lines above the live line; paint restores it.
func (t *tty) above(lines string) {
	if t.painted != "" {
		lines = "\r\x1b[K" + lines
		t.painted = ""
	}
	if lines != "" {
		t.out.print(lines)
	}
}

func (t *tty) tick(now time.Time) time.Duration {
	t.frame++
	if t.now.active {
		t.now.meter.observe(t.now.done, now)
	}
	t.paint(now)
	return repaint
}

func (t *tty) finish(time.Time) {
	t.now = &activity{}
	t.above("")
}

func (t *tty) paint(now time.Time) {
	if !t.now.active {
		t.above("")
		return
	}
	line := t.live(now)
	if line == t.painted {
		return
	}
	// The rest is cleared after the text, not before, to avoid flicker.
	t.out.print("\r" + line + "\x1b[K")
	t.painted = line
}

// live returns the line of the current activity, without the least important parts if they do not fit.
func (t *tty) live(now time.Time) string {
	width := t.width()
	if width <= 0 {
		width = fallbackWidth
	}
	elapsed := now.Sub(t.now.start).Truncate(time.Second).String()
	head := pad(t.now.label, labelWidth) + " " + padLeft(elapsed, timeWidth)
	step := t.now.step
	if step == t.now.label {
		step = ""
	}
	parts := []part{
		{step, 3}, {t.bar(), 1}, {t.now.amount(), 6}, {t.now.percent(), 4}, {t.now.rate(), 2}, {t.now.eta(), 5},
	}
	// One column stays free: a line that fills the last one wraps on some terminals.
	room := width - 1 - 2
	tail := fit(parts, room-utf8.RuneCountInString(head))
	return t.style.spinner(t.frame) + " " + t.style.paint(bold, cut(head, room)) + t.style.shade(tail)
}

func (t *tty) bar() string {
	share, known := t.now.share()
	if !known {
		return ""
	}
	return t.style.bar(int(share * barWidth))
}

// part is a part of the live line; a higher rank is kept longer.
type part struct {
	text string
	rank int
}

// fit joins the parts with two spaces, dropping those of the lowest rank until the rest fits.
func fit(parts []part, room int) string {
	for lowest := 0; ; lowest++ {
		var b strings.Builder
		kept := 0
		for _, p := range parts {
			if p.text != "" && p.rank > lowest {
				b.WriteString("  " + p.text)
				kept++
			}
		}
		if kept == 0 || utf8.RuneCountInString(b.String()) <= room {
			return b.String()
		}
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

func cut(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:max(0, width)])
}
