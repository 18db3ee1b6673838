package brcompat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// Streams are where a command writes, and what a test puts in the place of the real world's.
type Streams struct {
	Out io.Writer // the log, if BR_LOG_TO_TERM is set, and what the Operator waits for
	Err io.Writer // errors of the command line

	// EC2 is the endpoint of EC2, in place of what AWS_ENDPOINT_URL says; empty is that.
	EC2 string

	// MaxPause is how long `operator pause-gc-and-schedulers` holds a cluster at most, in place of 10 minutes; zero is these.
	MaxPause time.Duration
}

// ExitCode is what a process ends with. As with br, 0 is a complete run and anything else is none.
type ExitCode int

// The exit codes. The Operator distinguishes 0 from all others only; a person wants to know of a cluster that is held.
const (
	ExitDone   ExitCode = 0
	ExitFailed ExitCode = 1
	ExitHeld   ExitCode = 9 // the cluster was not put back: act now
)

// undoTime is how long a run may take to be undone after a signal: less than the 30 s that Kubernetes gives a pod.
const undoTime = 22 * time.Second

// errStopped is the cause of a context that a signal ended.
var errStopped = errors.New("stopped by a signal")

// Main runs the command line and returns the exit code. The first SIGTERM or SIGINT ends the run, which then undoes
// what it did; the second one makes Main return at once, with the run still going: the caller has to end the process.
func Main(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	done := make(chan ExitCode, 1)
	app := &app{streams: streams, version: version}
	go func() { done <- app.run(ctx, args) }()
	for stopping := false; ; stopping = true {
		select {
		case code := <-done:
			return code
		case s := <-signals:
			if stopping {
				return app.leave()
			}
			cancel(&phase.StopError{Reason: fmt.Errorf("%w: %s", errStopped, s), UndoBy: time.Now().Add(undoTime)})
		}
	}
}

// Run is Main without the process's signals.
func Run(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	app := &app{streams: streams, version: version}
	return app.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) ExitCode {
	streams := a.streams
	root := a.root() //nolint:contextcheck // the commands take it from cobra
	root.SetArgs(joinBools(root, args))
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	a.end(err)
	switch {
	case err == nil:
		return ExitDone
	case failure.KindOf(err) == failure.Held:
		return ExitHeld
	}
	return ExitFailed
}

// app is one invocation.
type app struct {
	streams Streams
	version Version
	common  Common
	log     *logger // nil before the flags are read
	left    phase.Remains
}

// leave says what is left of a run that still works, and gives the code to end with at once.
func (a *app) leave() ExitCode {
	lines, held := a.left.Lines()
	if len(lines) > 0 {
		ui.Say(a.streams.Err, "left: "+strings.Join(lines, "; "))
	}
	if held {
		return ExitHeld
	}
	return ExitFailed
}

// end reports the error, where the Operator looks and where a person does, and closes the log.
func (a *app) end(err error) {
	if err != nil {
		message := strings.ReplaceAll(err.Error(), "\n", "; ")
		if hint := failure.HintOf(err); hint != "" {
			message += " (" + hint + ")"
		}
		if a.log != nil {
			a.log.failed(message)
		}
		fmt.Fprintln(a.streams.Err, "Error: "+message)
	}
	if a.log != nil {
		if err := a.log.close(); err != nil { // what the run did stands
			fmt.Fprintln(a.streams.Err, "Warning: "+err.Error())
		}
	}
}

// joinBools makes "--flag true" of a boolean flag "--flag=true": pflag takes a value of those only with "=".
func joinBools(root *cobra.Command, args []string) []string {
	bools := boolFlags(root)
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if bools[args[i]] && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
			out = append(out, args[i]+"="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}
