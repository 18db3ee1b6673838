package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// defaultGrace is Kubernetes' own terminationGracePeriodSeconds.
const defaultGrace = 30 * time.Second

// shutdown handles signals. The run works in another goroutine.
type shutdown struct {
	grace   atomic.Int64 // a time.Duration; zero is defaultGrace
	machine atomic.Bool  // lines are JSON
	left    phase.Remains
}

// configure applies the flags.
func (e *shutdown) configure(grace time.Duration, machine bool) {
	if e != nil {
		e.grace.Store(int64(grace))
		e.machine.Store(machine)
	}
}

// remains is where a run registers what it would leave; nil without signal handling.
func (a *app) remains() *phase.Remains {
	if a.shutdown == nil {
		return nil
	}
	return &a.shutdown.left
}

// await returns the run's code, or the second signal's code when it arrives, or the first one's when the grace period
// ends. A cluster still held at that point outranks the signal.
func (e *shutdown) await(
	done <-chan ExitCode, signals <-chan os.Signal, cancel context.CancelCauseFunc, w io.Writer,
) ExitCode {
	var stopped ExitCode
	var over <-chan time.Time
	for {
		select {
		case code := <-done:
			return code
		case s := <-signals:
			stop, code := &phase.StopError{Reason: errInterrupted}, ExitInterrupted
			grace := e.period()
			if s == syscall.SIGTERM {
				stop, code = &phase.StopError{
					Reason: errTerminated, UndoBy: time.Now().Add(grace * 3 / 4),
				}, ExitTerminated
			}
			if stopped != 0 {
				return e.leave(w, "stopped at once by a second signal", code)
			}
			if stopped = code; !stop.UndoBy.IsZero() {
				over = time.After(grace * 9 / 10)
			}
			cancel(stop)
			e.warnStopping(w, stop, grace)
		case <-over:
			return e.leave(w, fmt.Sprintf("stopped: the grace period of %s is over", e.period()), stopped)
		}
	}
}

func (e *shutdown) period() time.Duration {
	if grace := time.Duration(e.grace.Load()); grace > 0 {
		return grace
	}
	return defaultGrace
}

func (e *shutdown) warnStopping(w io.Writer, stop *phase.StopError, grace time.Duration) {
	text := "stopping: undoing the run; a second signal stops at once"
	if !stop.UndoBy.IsZero() {
		text = fmt.Sprintf(
			"stopping: undoing the run, within %s (--grace-period); a second signal stops at once", grace)
	}
	if e.machine.Load() {
		// strings cannot fail
		line, _ := json.Marshal(phase.Event{Type: phase.Note, Time: time.Now().UTC(), Message: text})
		text = string(line)
	}
	ui.WriteLine(w, text)
}

// leave lists what the run leaves and what to do about each item.
func (e *shutdown) leave(w io.Writer, why string, code ExitCode) ExitCode {
	lines, held := e.left.Lines()
	kind := failure.Unknown
	if held {
		code, kind = exitCodeOf(failure.Held), failure.Held
	}
	if len(lines) == 0 {
		lines = []string{"nothing is held and nothing is left to undo"}
	}
	if e.machine.Load() {
		ui.WriteLine(w, exitLine(code, kindName(code, kind), why+": "+strings.Join(lines, "; "), ""))
		return code
	}
	ui.WriteLine(w, why+":\n  "+strings.Join(lines, "\n  "))
	return code
}
