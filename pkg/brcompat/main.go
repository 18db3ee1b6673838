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

// Streams are where a command writes, and what a test puts in the place of the real world's.
type Streams struct {
	Out io.Writer // the log, if BR_LOG_TO_TERM is set, and what the Operator waits for
	Err io.Writer // errors of the command line

	// EC2 is the endpoint of EC2, in place of what AWS_ENDPOINT_URL says; empty is that.
	EC2 string

	// MaxPause is how long `operator pause-gc-and-schedulers` holds a cluster at most, in place of 10 minutes; zero is
	// these.
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

// errStopped is the cause of a context that a signal ended.
var errStopped = errors.New("stopped by a signal")

// Main runs the command line and returns the exit code. The first SIGTERM or SIGINT ends the run, which then undoes
// what it did; so does the end of the process that started this one. The second signal makes Main return at once, with
// the run still going, and so does the end of the time that the Operator's Job has: what is left is named, and the
// caller has to end the process.
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
		app.sayStopping(s)
	}
	// With its parent the readers of stdout and stderr are gone, which would end the process at the next line.
	signal.Ignore(syscall.SIGPIPE)
	gone := watchParent(ctx, os.Getppid)
	for {
		select {
		case code := <-done:
			return code
		case <-over:
			return app.leave("the time that TiDB Operator's Job has is over before all was undone")
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
	root := a.root() //nolint:contextcheck // the commands take it from cobra
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
	log     *logger // nil before the flags are read
	left    phase.Remains
	aside   aside

	// What the goroutine that waits for signals reads.
	said atomic.Pointer[logger] // log
	// a time.Duration; zero is that of a Backup, and no end of the process before the run's
	grace atomic.Int64
}

// end reports the error and closes the log. The Operator puts lines with [ERROR] of stdout and all of stderr into the
// CR, so that an error that is on stdout is on stderr no more.
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
