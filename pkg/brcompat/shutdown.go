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

// How long after SIGTERM TiDB Operator's Jobs may live (terminationGracePeriodSeconds) before they are killed.
const (
	BackupGrace  = 30 * time.Second
	RestoreGrace = 10 * time.Second
)

// lastWords are two lines, each of which waits a second for its reader at most, and the end of the process.
const lastWords = 2500 * time.Millisecond

// endTime is when after the signal a process ends whatever still works, and says what is left.
func endTime(grace time.Duration) time.Duration { return grace - lastWords }

// undoTime is how long the run is undone. Of what is left then each undo gets a second.
func undoTime(grace time.Duration) time.Duration { return endTime(grace) * 17 / 20 }

// stop is the cause of the end of a run whose process got a signal, and over says when the process has to end; nil is
// when the run has ended. A pause has only few calls to make, each with a bound of its own.
func (a *app) stop(s os.Signal) (cause *phase.StopError, over <-chan time.Time) {
	grace := a.period()
	if a.grace.Load() != 0 {
		over = time.After(endTime(grace))
	}
	return &phase.StopError{Reason: fmt.Errorf("%w: %s", errStopped, s), UndoBy: time.Now().Add(undoTime(grace))}, over
}

// sayStopping says how long that may take.
func (a *app) sayStopping(s os.Signal) {
	log, grace := a.said.Load(), a.period()
	if log == nil {
		return // nothing has begun
	}
	briefly(func() {
		log.Warn("stopping: what the run did is undone; a second signal stops at once", zap.Stringer("signal", s),
			zap.Duration("undo-within", undoTime(grace)), zap.Duration("end-within", endTime(grace)))
	})
}

func (a *app) period() time.Duration {
	return cmp.Or(time.Duration(a.grace.Load()), BackupGrace)
}

// leave says what is left of a run that still works, once and on stderr, and gives the code to end with at once. The
// log has why the run ended, and a log that is a file what is left, too: TiDB Operator puts both of its Job's streams
// together.
func (a *app) leave(why string) ExitCode {
	lines, held := a.left.Lines()
	text := "nothing is held and nothing is left to undo"
	if len(lines) > 0 {
		text = "left: " + strings.Join(lines, "; ")
	}
	if log := a.said.Load(); log != nil {
		said := why
		if log.file != nil {
			said += "; " + text
		}
		briefly(func() { log.failed(said) })
	}
	ui.Say(a.streams.Err, text)
	if held {
		return ExitHeld
	}
	return ExitFailed
}

// briefly calls a function that writes to a pipe which perhaps nobody reads, and waits for it for a second at most.
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

// bound notes the grace period of the Jobs that run this command.
func (a *app) bound(grace time.Duration) { a.grace.Store(int64(grace)) }
