package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ExitCode is a process's exit code. Codes are never reused; scripts may rely on them, and must treat an unknown one as
// failure.
type ExitCode int

// Codes without a failure kind.
const (
	ExitDone        ExitCode = 0
	ExitInterrupted ExitCode = 130
	ExitTerminated  ExitCode = 143
)

// exitCodes maps kinds to codes; help and docs/scripting.md are checked against it.
var exitCodes = []struct {
	kind    failure.Kind
	code    ExitCode
	meaning string
}{
	{failure.Unknown, 1, "failed, see the message"},
	{failure.Usage, 2, "the command line or configuration is wrong; nothing was changed"},
	{failure.Partial, 3, "usable but incomplete"},
	{failure.NotFound, 4, "the backup, cluster or store does not exist"},
	{failure.Unready, 5, "a precondition does not hold; nothing was changed"},
	{failure.Conflict, 6, "another run holds the lock, or the name is taken"},
	{failure.Denied, 7, "credentials or permissions"},
	{failure.Limited, 8, "throttled, over a quota or out of time; safe to run again"},
	{failure.Held, 9, "the cluster is still held: act now"},
	{failure.Corrupt, 10, "data does not match its digest, or is inconsistent"},
	{failure.Stale, 11, "a cluster has no good backup as young as --max-age"},
	{failure.Unproven, 12, "a drill restored the backup, and its checks did not pass"},
	{failure.Leaked, 13, "a drill left what it made: remove it with tisnap drill clean"},
}

// errInterrupted and errTerminated are the causes of a context that a signal ended.
var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("terminated")
)

// exitCode maps an error to its code. A cluster that is still held outranks the signal that led to it.
func exitCode(ctx context.Context, err error) ExitCode {
	if err == nil {
		return ExitDone
	}
	kind := failure.KindOf(err)
	if kind != failure.Held {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errInterrupted):
			return ExitInterrupted
		case errors.Is(cause, errTerminated):
			return ExitTerminated
		}
	}
	return exitCodeOf(kind)
}

// exitCodeOf is the code of a kind of error.
func exitCodeOf(kind failure.Kind) ExitCode {
	for _, row := range exitCodes {
		if row.kind == kind {
			return row.code
		}
	}
	return 1
}

// exitStatus is the EXIT STATUS section of the commands' help.
func exitStatus() string {
	var b strings.Builder
	b.WriteString("\nEXIT STATUS\n    0  done as asked\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.meaning)
	}
	fmt.Fprintf(&b, "  %3d  interrupted by Ctrl-C (%d: by SIGTERM); what was held is released\n", ExitInterrupted,
		ExitTerminated)
	return b.String()
}
