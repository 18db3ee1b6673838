package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/tisnap/tisnap/pkg/phase"
)

// activities are what is running now, in order of their start: phases may overlap.
type activities []*activity

// apply tracks an event and returns its activity; nil if that has ended.
func (a *activities) apply(e phase.Event, at time.Time) *activity {
	label := e.Phase
	switch e.Type {
	case phase.UndoStarted, phase.UndoFinished, phase.UndoFailed:
		label = undoLabel + e.Step
	default: // of a phase
	}
	i := slices.IndexFunc(*a, func(t *activity) bool { return t.label == label })
	if i < 0 && len(*a) > 0 && strings.HasPrefix((*a)[0].label, undoLabel) {
		i = 0 // an undo belongs to its step's phase
	}
	if i < 0 {
		t := &activity{}
		if t.apply(e, at); t.active {
			*a = append(*a, t)
		}
		return t
	}
	t := (*a)[i]
	if t.apply(e, at); !t.active {
		*a = slices.Delete(*a, i, i+1)
	}
	return t
}

// first returns the activity to show; inactive if nothing is running.
func (a activities) first() *activity {
	if len(a) == 0 {
		return &activity{}
	}
	return a[0]
}

// undoLabel is the prefix of an undo's label.
const undoLabel = "undo "

// activity is what is running now: a phase, or the undo of a step. Of concurrent steps it follows the first.
type activity struct {
	active bool
	label  string
	start  time.Time
	step   string
	// running reports whether the step is still running; afterwards another one replaces it.
	running bool

	done, total int64
	unit        string
	meter       meter
}

// apply tracks an event. It resets the activity to its zero value when it has ended.
func (t *activity) apply(e phase.Event, at time.Time) {
	switch e.Type {
	case phase.PhaseStarted:
		*t = activity{active: true, label: e.Phase, start: at}
	case phase.UndoStarted:
		*t = activity{active: true, label: undoLabel + e.Step, start: at}
	case phase.StepStarted:
		if t.step != "" && t.running {
			return
		}
		*t = activity{active: true, label: e.Phase, start: t.startOr(e.Phase, at), step: e.Step, running: true}
	case phase.Progress:
		if t.step != e.Step && t.running && e.Step != "" {
			return
		}
		if e.Unit != t.unit || e.Total != t.total {
			t.meter = meter{}
		}
		t.done, t.total, t.unit = e.Done, e.Total, e.Unit
		t.meter.observe(e.Done, at)
	case phase.PhaseFinished, phase.UndoFinished, phase.UndoFailed:
		*t = activity{}
	case phase.StepFinished, phase.StepFailed:
		t.running = t.running && t.step != e.Step
	case phase.Note, phase.Warning:
	}
}

func (t *activity) startOr(label string, at time.Time) time.Time {
	if t.active && t.label == label {
		return t.start
	}
	return at
}

// amount returns "12/30 volumes" or "62% of 6 snapshots", or "" if nothing is counted.
func (t *activity) amount() string {
	share, known := t.share()
	switch {
	case known && t.ofHundred() != "": // 375 of 600 is 62 % of 6
		return strconv.Itoa(int(share*100)) + "% of " + humanize.Comma(t.total/100) + " " + t.ofHundred()
	case t.unit == "" && t.total == 0 && t.done == 0:
		return ""
	case t.unit == "bytes" && t.total > 0:
		return size(t.done) + "/" + size(t.total)
	case t.unit == "bytes":
		return size(t.done)
	case t.total > 0:
		return strings.TrimSpace(humanize.Comma(t.done) + "/" + humanize.Comma(t.total) + " " + t.unit)
	}
	return strings.TrimSpace(humanize.Comma(t.done) + " " + t.unit)
}

// share returns the completed share, 0 to 1, and whether there is a total.
func (t *activity) share() (share float64, known bool) {
	if t.total <= 0 {
		return 0, false
	}
	return min(1, max(0, float64(t.done)/float64(t.total))), true
}

// percentUnit is the prefix of units that are counted in percent of each item.
const percentUnit = "% of "

// ofHundred returns the items that are counted in percent each, or "".
func (t *activity) ofHundred() string {
	noun, counted := strings.CutPrefix(t.unit, percentUnit)
	if !counted {
		return ""
	}
	return noun
}

// percent returns "62%", or "" if the amount already shows it or it is unknown.
func (t *activity) percent() string {
	share, known := t.share()
	if !known || t.ofHundred() != "" {
		return ""
	}
	return strconv.Itoa(int(share*100)) + "%"
}

// rate returns "2.1/s", or a rate per minute if slow.
func (t *activity) rate() string {
	r := t.meter.rate()
	switch {
	case r <= 0, t.ofHundred() != "":
		return ""
	case t.unit == "bytes":
		return size(int64(r)) + "/s"
	case r < 1:
		return short(r*60) + "/min"
	}
	return short(r) + "/s"
}

func (t *activity) eta() string {
	left, known := t.meter.eta(t.done, t.total)
	if !known || t.done >= t.total {
		return ""
	}
	return "eta " + left.Round(time.Second).String()
}

func short(r float64) string {
	if r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return humanize.Comma(int64(r))
}

func size(n int64) string { return humanize.IBytes(uint64(max(0, n))) }

// took formats a finished duration.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// clean turns a message, which may quote another system's bytes, into one line without control characters.
func clean(message string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message))
}

// firstReason returns the first line of a step's error: the final error has all of them.
func firstReason(message string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(message), "\n")
	if !more {
		return clean(first)
	}
	return clean(first) + " (and " + strconv.Itoa(1+strings.Count(rest, "\n")) + " more, at the end)"
}

func join(parts ...string) string {
	var filled []string
	for _, p := range parts {
		if p != "" {
			filled = append(filled, p)
		}
	}
	return strings.Join(filled, ", ")
}
