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
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Streams are where a command reads and writes.
type Streams struct {
	In  io.Reader // answers of a person; nil if there is none
	Out io.Writer // results only
	Err io.Writer // progress, logs, errors

	// Program is the name that the program was started by: as kubectl-tisnap it calls itself kubectl tisnap.
	Program string

	asTerminal bool // for tests: In is a terminal
}

// Main runs the command line and returns the exit code. The first SIGINT or SIGTERM ends the run, which
// then undoes what it did; the second one makes Main return at once, with the run still going: the caller
// has to end the process.
func Main(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done := make(chan ExitCode, 1)
	go func() { done <- Run(ctx, args, streams, version) }()
	return await(done, signals, cancel, streams.Err)
}

// await returns the run's code, or at the second signal that signal's.
func await(done <-chan ExitCode, signals <-chan os.Signal, cancel context.CancelCauseFunc, w io.Writer) ExitCode {
	for stopping := false; ; stopping = true {
		select {
		case code := <-done:
			return code
		case s := <-signals:
			reason, code := errInterrupted, ExitInterrupted
			if s == syscall.SIGTERM {
				reason, code = errTerminated, ExitTerminated
			}
			if stopping {
				say(w, "stopped at once: what was held expires by itself; `tisnap hold status` shows it, `tisnap release` ends it")
				return code
			}
			cancel(reason)
			say(w, "stopping: the run is being undone; a second signal stops at once")
		}
	}
}

// say prints a line, and does not wait long for one who does not read it.
func say(w io.Writer, line string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(w, line)
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}

// Run is Main without the process's signals.
func Run(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	app := &app{streams: streams, version: version, args: args, wait: true}
	root := app.root() //nolint:contextcheck // the commands take it from cobra
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if app.machine() { // the line that says how the process ended is the last
		app.announceEnd(ctx, err, code)
	}
	if err != nil {
		app.printError(err, code)
	}
	if !app.machine() { // a person sees the error at once, however slow a receiver is
		app.announceEnd(ctx, err, code)
	}
	return code
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
