package ui_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

func TestPlain_LineAtEachChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.Plain, nil), func(p *ui.Progress) {
			p.Emit(event(phase.PhaseStarted, "pause GC", ""))
			p.Emit(event(phase.StepStarted, "pause GC", "hold gc"))
			wait(1500 * time.Millisecond)
			p.Emit(phase.Event{Type: phase.Warning, Phase: "pause GC", Step: "hold gc", Message: "pd-1 is\x1b[2J not the leader\n"})
			p.Emit(phase.Event{Type: phase.Note, Phase: "pause GC", Step: "hold gc", Message: "retrying"})
			p.Emit(phase.Event{
				Type: phase.StepFailed, Phase: "pause GC", Step: "hold gc", Message: "gone", Elapsed: 1500 * time.Millisecond,
			})
			p.Emit(finished("pause GC", 1500*time.Millisecond, phase.Failed))
			p.Emit(event(phase.UndoStarted, "pause GC", "hold gc"))
			p.Emit(phase.Event{Type: phase.UndoFinished, Phase: "pause GC", Step: "hold gc", Elapsed: 12 * time.Millisecond})
			p.Emit(phase.Event{Type: phase.UndoFailed, Phase: "lock", Step: "lock", Elapsed: 2 * time.Hour, Message: "denied"})
		})
		want := []string{
			"2000-01-01T00:00:00Z pause GC: started",
			"2000-01-01T00:00:00Z pause GC: hold gc: started",
			"2000-01-01T00:00:01Z warning: pause GC: hold gc: pd-1 is [2J not the leader",
			"2000-01-01T00:00:01Z pause GC: hold gc: retrying",
			"2000-01-01T00:00:01Z pause GC: hold gc: failed after 1.5s: gone",
			"2000-01-01T00:00:01Z pause GC: failed in 1.5s",
			"2000-01-01T00:00:01Z undo hold gc: started",
			"2000-01-01T00:00:01Z undo hold gc: done in 12ms",
			"2000-01-01T00:00:01Z undo lock: failed after 2h0m0s: denied",
		}
		assert.Equal(t, strings.Join(want, "\n")+"\n", text)
	})
}

// Several reasons are in full in the error at the end: a step's line has the first of them.
func TestPlain_StepFailsForManyReasons_LineHasTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.Plain, nil), func(p *ui.Progress) {
			p.Emit(phase.Event{Type: phase.StepFailed, Phase: "create cluster", Step: "preflight", Message: "claim a: too large\nclaim b: no class\nclaim c: denied"})
		})
		assert.Contains(t, text, "failed after 0s: claim a: too large (and 2 more, at the end)\n")
		assert.NotContains(t, text, "claim b")
	})
}

func TestPlain_NothingChanges_LineEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.Plain, nil), func(p *ui.Progress) {
			wait(5 * time.Minute) // nothing runs: nothing is printed
			p.Emit(event(phase.PhaseStarted, "volume snapshots", ""))
			p.Emit(event(phase.StepStarted, "volume snapshots", "wait"))
			wait(500 * time.Millisecond) // so that no progress falls on the same instant as a line
			for i := range 94 {
				p.Emit(progress("volume snapshots", "wait", int64(i), 200, "volumes"))
				wait(time.Second)
			}
			p.Emit(finished("volume snapshots", 94500*time.Millisecond, phase.Done))
			wait(5 * time.Minute)
		})
		want := []string{
			"2000-01-01T00:05:00Z volume snapshots: started",
			"2000-01-01T00:05:00Z volume snapshots: wait: started",
			"2000-01-01T00:05:30Z volume snapshots: wait: 29/200 volumes (14%), 58/min, eta 2m56s, running for 30s",
			"2000-01-01T00:06:00Z volume snapshots: wait: 59/200 volumes (29%), 58/min, eta 2m24s, running for 1m0s",
			"2000-01-01T00:06:30Z volume snapshots: wait: 89/200 volumes (44%), 58/min, eta 1m53s, running for 1m30s",
			"2000-01-01T00:06:34Z volume snapshots: done in 1m34.5s",
		}
		assert.Equal(t, strings.Join(want, "\n")+"\n", text)
	})
}
