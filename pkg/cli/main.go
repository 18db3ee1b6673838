package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Streams are where a command reads and writes.
type Streams struct {
	Out io.Writer // results only
	Err io.Writer // progress, logs, errors
}

// Main runs the command line and returns the exit code. The first SIGINT or SIGTERM ends the run, which
// then undoes what it did; the second one ends the process at once.
func Main(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := catchSignals(cancel, streams.Err)
	defer stop()
	return Run(ctx, args, streams, version)
}

// Run is Main without the process's signals.
func Run(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	app := &app{streams: streams, version: version}
	root := app.root()
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if err != nil {
		app.printError(err, code)
	}
	return code
}

func catchSignals(cancel context.CancelCauseFunc, w io.Writer) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				reason := errInterrupted
				if s == syscall.SIGTERM {
					reason = errTerminated
				}
				if n > 0 {
					fmt.Fprintln(w, "stopped at once: what was held expires by itself; look with `tisnap list` what the run left")
					os.Exit(int(ExitInterrupted)) //nolint:revive // the second signal asks for exactly this
				}
				fmt.Fprintln(w, "stopping: the run is being undone; a second signal stops at once")
				cancel(reason)
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
	}
}

// printError prints "error: …" and "hint: …", or one JSON line where machines read.
func (a *app) printError(err error, code ExitCode) {
	var usage *usageError
	hint := failure.HintOf(err)
	kind := failure.KindOf(err)
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if errors.As(err, &usage) && hint == "" {
		hint = "see: " + usage.command + " --help"
	}
	if a.machine() {
		line, _ := json.Marshal(struct { //nolint:errchkjson // strings and numbers cannot fail
			Type    string   `json:"type"`
			Code    ExitCode `json:"code"`
			Kind    string   `json:"kind"`
			Message string   `json:"message"`
			Hint    string   `json:"hint,omitempty"`
		}{"exit", code, kind.String(), message, hint})
		fmt.Fprintln(a.streams.Err, string(line))
		return
	}
	fmt.Fprintln(a.streams.Err, "error: "+message)
	if hint != "" {
		fmt.Fprintln(a.streams.Err, "hint: "+hint)
	}
}

// usageError is a command line that can never work.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &usageError{command: cmd.CommandPath(), err: failure.Wrap(err, failure.Usage, "", "")}
}
