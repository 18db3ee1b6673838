package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

func TestAwait_RunEnds_ItsCode(t *testing.T) {
	t.Parallel()
	done := make(chan ExitCode, 1)
	done <- 5
	var out bytes.Buffer
	code := new(shutdown).await(done, nil, func(error) { assert.Fail(t, "cancelled") }, &out)
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
			assert.Equal(t, ExitCode(42), new(shutdown).await(done, signals, undo, &out))
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
			assert.Equal(t, want, new(shutdown).await(nil, signals, func(error) {}, &out))
			assert.Contains(t, out.String(), "nothing is held and nothing is left")
		})
	}
}

// A full pipe must not keep a signal from ending the run.
func TestAwait_StderrIsNotRead_RunIsUndone(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	done, signals := make(chan ExitCode, 1), make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code := new(shutdown).await(done, signals, func(reason error) {
		assert.ErrorIs(t, reason, errTerminated)
		done <- ExitTerminated
	}, writer)
	assert.Equal(t, ExitTerminated, code)
	require.NoError(t, reader.Close()) // ends the write under way
}

// What a second signal leaves is named with the run and the command that ends it, and a hold has its own exit code.
func TestAwait_SecondSignal_ListsLeftovers(t *testing.T) {
	t.Parallel()
	const hold, snapshots = "cluster tidb/prod is still held by run r1; release it now with: tisnap release tidb/prod", "3 snapshots (snap-1 snap-2 snap-3)"
	type row struct {
		machine       bool
		first, second os.Signal
	}
	for _, c := range []row{
		{false, syscall.SIGTERM, syscall.SIGTERM}, {true, syscall.SIGTERM, syscall.SIGTERM},
		{false, os.Interrupt, os.Interrupt}, {false, os.Interrupt, syscall.SIGTERM}, {true, syscall.SIGTERM, os.Interrupt},
	} {
		t.Run(fmt.Sprintf("machine %t, %s, %s", c.machine, c.first, c.second), func(t *testing.T) {
			t.Parallel()
			e := new(shutdown)
			e.configure(time.Hour, c.machine)
			e.left.Set("snapshots", func() string { return snapshots })
			e.left.Set(phase.RemainsHold, func() string { return hold })
			e.left.Set("volumes", func() string { return "volumes" })
			e.left.Clear("volumes")
			signals := make(chan os.Signal, 2)
			signals <- c.first
			signals <- c.second
			var out bytes.Buffer
			assert.Equal(t, ExitCode(9), e.await(nil, signals, func(error) {}, &out))
			assert.Contains(t, out.String(), hold)
			assert.Contains(t, out.String(), snapshots)
			assert.NotContains(t, out.String(), "volumes")
			if c.machine {
				for line := range strings.Lines(out.String()) {
					require.True(t, json.Valid([]byte(line)), line)
				}
			}
		})
	}
}

// A pod is killed at the end of its grace period: the process ends before, and names what it leaves.
func TestAwait_GraceIsOver_EndsAndListsLeftovers(t *testing.T) {
	t.Parallel()
	e := new(shutdown)
	e.configure(time.Second, false)
	e.left.Set("snapshots", func() string { return "3 snapshots of run r1" })
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	var out bytes.Buffer
	var cause error
	assert.Equal(t, ExitTerminated, e.await(nil, signals, func(err error) { cause = err }, &out))
	assert.Contains(t, out.String(), "grace period of 1s is over")
	assert.Contains(t, out.String(), "3 snapshots of run r1")
	var stop *phase.StopError
	require.ErrorAs(t, cause, &stop)
	assert.False(t, stop.UndoBy.IsZero(), "the undo knows its bound")
}

// A person at a terminal may let the undo take its time.
func TestAwait_Interrupted_NoBound(t *testing.T) {
	t.Parallel()
	signals, done := make(chan os.Signal, 1), make(chan ExitCode, 1)
	signals <- os.Interrupt
	var stop *phase.StopError
	new(shutdown).await(done, signals, func(err error) {
		assert.ErrorAs(t, err, &stop)
		done <- ExitInterrupted
	}, io.Discard)
	assert.True(t, stop.UndoBy.IsZero())
}
