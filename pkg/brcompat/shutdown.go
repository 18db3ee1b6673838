package brcompat

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// The terminationGracePeriodSeconds of TiDB Operator's Jobs.
const (
	BackupGrace  = 30 * time.Second
	RestoreGrace = 10 * time.Second
)

// lastWords is the time to print two lines, each of which waits at most a second for its reader, and to exit.
const lastWords = 2500 * time.Millisecond

// endTime is how long after the signal the process stops, whatever still works, and lists what is left.
func endTime(grace time.Duration) time.Duration { return grace - lastWords }

// undoTime is how long undoing the run may take. After that each remaining undo gets a second.
func undoTime(grace time.Duration) time.Duration { return endTime(grace) * 17 / 20 }

// stop cancels the run of a process that got a signal; over fires when the process must exit, and is nil if that is
// when the run has ended: a pause makes only a few calls, each with its own bound.
func (a *app) stop(s os.Signal) (cause *phase.StopError, over <-chan time.Time) {
	grace := a.period()
	if a.grace.Load() != 0 {
		over = time.After(endTime(grace))
	}
	return &phase.StopError{Reason: fmt.Errorf("%w: %s", errStopped, s), UndoBy: time.Now().Add(undoTime(grace))}, over
}

// logStopping logs how long stopping may take.
func (a *app) logStopping(s os.Signal) {
	log, grace := a.signalLog.Load(), a.period()
	if log == nil {
		return // nothing has started
	}
	briefly(func() {
		log.Warn("stopping: undoing the run; a second signal stops at once", zap.Stringer("signal", s),
			zap.Duration("undo-within", undoTime(grace)), zap.Duration("end-within", endTime(grace)))
	})
}

func (a *app) period() time.Duration {
	return cmp.Or(time.Duration(a.grace.Load()), BackupGrace)
}

// leave lists, once and on stderr, what a run that is still working leaves, and returns the code to exit with at once.
// The log has the reason, and a log file the leftovers too: TiDB Operator merges both of its Job's streams.
func (a *app) leave(why string) ExitCode {
	lines, held := a.left.Lines()
	text := "nothing is held and nothing is left to undo"
	if len(lines) > 0 {
		text = "left: " + strings.Join(lines, "; ")
	}
	if log := a.signalLog.Load(); log != nil {
		message := why
		if log.file != nil {
			message += "; " + text
		}
		briefly(func() { log.failed(message) })
	}
	ui.WriteLine(a.streams.Err, text)
	if held {
		return ExitHeld
	}
	return ExitFailed
}

// briefly calls a function that writes to a possibly blocked pipe, and waits at most a second for it.
func briefly(write func()) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		write()
	}()
	select {
	case <-written:
	case <-time.After(time.Second):
	}
}

// bound records the grace period of the Jobs that run this command.
func (a *app) bound(grace time.Duration) { a.grace.Store(int64(grace)) }
