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

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/outbound"
)

// Streams are a command's input and outputs.
type Streams struct {
	In  io.Reader // the user's answers; nil if there is no user
	Out io.Writer // results only
	Err io.Writer // progress, logs, errors

	// Program is the name that the program was started as: kubectl-tisnap displays as kubectl tisnap.
	Program string
	// LimitMemory sets about how much memory the process takes before garbage is collected at once; nil does not.
	LimitMemory func(bytes int64)

	asTerminal bool            // for tests: In is a terminal
	limits     outbound.Limits // for tests: of a notification; zero is the package's own
	poll       time.Duration   // for tests: between two questions about claims and Jobs; zero is the packages' own
}

// Main runs the command line and returns the exit code. The first SIGINT or SIGTERM stops the run, which then undoes
// its work. A second one, or the end of the grace period after SIGTERM, makes Main print what is left and return at
// once while the run is still working: the caller must exit the process.
func Main(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done := make(chan ExitCode, 1)
	app := &app{streams: streams, version: version, shutdown: new(shutdown)}
	go func() { done <- app.run(ctx, args) }()
	return app.shutdown.await(done, signals, cancel, streams.Err)
}

// Run is Main without the process's signals.
func Run(ctx context.Context, args []string, streams Streams, version Version) ExitCode {
	app := &app{streams: streams, version: version}
	return app.run(ctx, args)
}

// Command returns all commands with their flags, for those who document them.
func Command() *cobra.Command { return (&app{}).root() }

func (a *app) run(ctx context.Context, args []string) ExitCode {
	streams := a.streams
	if streams.Program == kubectlComplete {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	a.args, a.wait = args, true
	root := a.root()
	if a.completes() {
		offerValues(root)
	}
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if a.machine() { // the exit line comes last
		a.announceEnd(ctx, err, code)
	}
	if err != nil {
		a.printError(err, code)
	}
	if !a.machine() { // users see the error at once, however slow a receiver is
		a.announceEnd(ctx, err, code)
	}
	return code
}

// printError prints "error: …" and a "hint: …" per remedy, or one JSON line for machines.
func (a *app) printError(err error, code ExitCode) {
	var usage *usageError
	hints := failure.HintsOf(err)
	kind := failure.KindOf(err)
	message := failure.Redact(strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, &usage) && len(hints) == 0 {
		hints = []string{"see: " + usage.command + " --help"}
	}
	if a.machine() {
		fmt.Fprintln(a.streams.Err, exitLine(code, kindName(code, kind), message, strings.Join(hints, "; ")))
		return
	}
	fmt.Fprintln(a.streams.Err, failure.Lines("error: "+message))
	for _, hint := range hints {
		fmt.Fprintln(a.streams.Err, failure.Lines("hint: "+hint))
	}
}

// kindName is the kind of a run's error; one that a signal stopped is interrupted, whatever failed because of that.
func kindName(code ExitCode, kind failure.Kind) string {
	if code == ExitInterrupted || code == ExitTerminated {
		return failure.Interrupted
	}
	return kind.String()
}

// exitLine is the last line for machines.
func exitLine(code ExitCode, kind, message, hint string) string {
	line, _ := json.Marshal(struct { // strings and numbers cannot fail
		Type    string   `json:"type"`
		Code    ExitCode `json:"code"`
		Kind    string   `json:"kind"`
		Message string   `json:"message"`
		Hint    string   `json:"hint,omitempty"`
	}{"exit", code, kind, message, hint})
	return string(line)
}
