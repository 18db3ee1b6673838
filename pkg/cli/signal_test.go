package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAwait_RunEnds_ItsCode(t *testing.T) {
	t.Parallel()
	done := make(chan ExitCode, 1)
	done <- 5
	var out bytes.Buffer
	code := await(done, nil, func(error) { assert.Fail(t, "cancelled") }, &out)
	assert.Equal(t, ExitCode(5), code)
	assert.Empty(t, out.String())
}

func TestAwait_OneSignal_CancelsAndWaitsForTheRun(t *testing.T) {
	t.Parallel()
	for s, reason := range map[os.Signal]error{os.Interrupt: errInterrupted, syscall.SIGTERM: errTerminated} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan ExitCode, 1)
			signals := make(chan os.Signal, 1)
			signals <- s
			var out bytes.Buffer
			undo := func(cause error) {
				cancel(cause)
				done <- 42 // the run ends only because it was cancelled
			}
			assert.Equal(t, ExitCode(42), await(done, signals, undo, &out))
			require.ErrorIs(t, context.Cause(ctx), reason)
			assert.Contains(t, out.String(), "a second signal stops at once")
		})
	}
}

func TestAwait_SecondSignal_ReturnsWithTheRunStillGoing(t *testing.T) {
	t.Parallel()
	for s, want := range map[os.Signal]ExitCode{os.Interrupt: ExitInterrupted, syscall.SIGTERM: ExitTerminated} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			signals := make(chan os.Signal, 2)
			signals <- os.Interrupt
			signals <- s
			var out bytes.Buffer
			assert.Equal(t, want, await(nil, signals, func(error) {}, &out))
			assert.Contains(t, out.String(), "expires by itself")
		})
	}
}

// A full pipe must not keep a signal from ending the run.
func TestAwait_NobodyReadsStderr_RunIsUndone(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	done, signals := make(chan ExitCode, 1), make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code := await(done, signals, func(reason error) {
		assert.ErrorIs(t, reason, errTerminated)
		done <- ExitTerminated
	}, writer)
	assert.Equal(t, ExitTerminated, code)
	require.NoError(t, reader.Close()) // lets the write under way go
}
