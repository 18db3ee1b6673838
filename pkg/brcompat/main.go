package brcompat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Streams are a command's outputs, and the test overrides of external settings.
type Streams struct {
	Out io.Writer // the log if BR_LOG_TO_TERM is set, and the lines that the Operator waits for
	Err io.Writer // command line errors

	// EC2 overrides the EC2 endpoint; empty for AWS_ENDPOINT_URL.
	EC2 string

	// MaxPause bounds how long `operator pause-gc-and-schedulers` holds a cluster; zero is 10 minutes.
	MaxPause time.Duration
}

// ExitCode is a process's exit code. As with br, 0 is a complete run and anything else is a failure.
type ExitCode int

// The exit codes. The Operator only distinguishes 0 from the rest; users need to know about a cluster that is held.
const (
	ExitDone   ExitCode = 0
	ExitFailed ExitCode = 1
	ExitHeld   ExitCode = 9 // the cluster is still held: act now
)

// errStopped is the cause of a context that a signal ended.
var errStopped = errors.New("stopped by a signal")

// Main runs the command line and returns the exit code. The first SIGTERM or SIGINT, or the exit of the parent process,
// stops the run, which then undoes its work. A second signal, or the end of the Operator Job's grace period, makes Main
// list what is left and return at once while the run is still working: the caller must exit the process.
func Main(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	done := make(chan ExitCode, 1)
	app := &app{streams: streams, version: version}
	go func() { done <- app.run(ctx, args) }()
	stopping, over := false, (<-chan time.Time)(nil)
	stop := func(s os.Signal) {
		var cause *phase.StopError
		cause, over = app.stop(s)
		stopping = true
		cancel(cause)
		app.logStopping(s)
	}
	// Without its parent, stdout and stderr have no readers, and the next line would kill the process.
	signal.Ignore(syscall.SIGPIPE)
	gone := watchParent(ctx, os.Getppid)
	for {
		select {
		case code := <-done:
			return code
		case <-over:
			return app.leave("TiDB Operator's Job ran out of time before everything was undone")
		case s := <-signals:
			if stopping {
				return app.leave("stopped at once by a second signal")
			}
			stop(s)
		case <-gone:
			gone = nil
			if !stopping {
				stop(parentEnded{})
			}
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
	root := a.root()
	args = joinBools(root, args)
	a.setAside(ctx, args)
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := a.notAside(root.ExecuteContext(ctx))
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
	log     *logger // nil before the flags are parsed
	left    phase.Remains
	aside   aside

	// Read by the goroutine that waits for signals.
	signalLog atomic.Pointer[logger] // log
	// a time.Duration; zero is a Backup's, and never ends the process before the run
	grace atomic.Int64
}

// end reports the error and closes the log. The Operator copies stdout lines with [ERROR], and all of stderr, into the
// CR, so an error printed to stdout is not repeated on stderr.
func (a *app) end(err error) {
	if err != nil {
		message := strings.ReplaceAll(err.Error(), "\n", "; ")
		if hints := failure.HintsOf(err); len(hints) > 0 {
			message += " (" + strings.Join(hints, "; ") + ")"
		}
		if a.log != nil {
			a.log.failed(message)
		}
		if a.log == nil || a.log.file != nil {
			fmt.Fprintln(a.streams.Err, "Error: "+message)
		}
	}
	if a.log != nil {
		if err := a.log.close(); err != nil { // the run's outcome stands
			fmt.Fprintln(a.streams.Err, "Warning: "+err.Error())
		}
	}
}

// joinBools turns "--flag true" of a boolean flag into "--flag=true": pflag accepts their values only with "=".
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
