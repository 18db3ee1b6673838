package ebs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Each state of a snapshot ends the wait, or lets it continue, with a bound.
// https://github.com/pingcap/tidb/issues/53037
// Catalogue: C1.
func TestEachStateOfASnapshot_Decided(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		state ebs.SnapshotState
		polls int // for which EC2 reports the state; 0 is for ever
		fails string
		kind  failure.Kind
		warns string
	}{
		{state: ebs.SnapshotError, fails: "error", kind: failure.Unknown},
		{state: ebs.SnapshotRecoverable, fails: "recoverable", kind: failure.Unknown},
		{state: ebs.SnapshotRecovering, polls: 3},
		{state: ebs.SnapshotRecovering, fails: "no progress", kind: failure.Limited},
		{state: "weird", polls: 3, warns: "weird"},
		{state: "weird", fails: "no progress", kind: failure.Limited, warns: "weird"},
	} {
		t.Run(string(test.state)+" "+test.fails, func(t *testing.T) {
			t.Parallel()
			l := newLive(t, 1, 100)
			polls := 0
			l.calls.describe = func() { // one wait polls, one after the other
				polls++
				state := test.state
				if test.polls > 0 && polls > test.polls {
					state = ""
				}
				if err := l.EC2.ForceSnapshotState(l.EC2.Snapshots()[0].ID, state); err != nil {
					t.Error(err)
				}
			}
			o := l.options()
			o.Stuck = 4 * time.Second
			result, err := l.backup(t, o)
			require.Contains(t, l.warned.String(), test.warns)
			if test.fails == "" {
				l.sealed(t, o, result, err)
				require.Greater(t, polls, test.polls)
				return
			}
			require.ErrorContains(t, err, test.fails)
			require.Equal(t, test.kind, failure.KindOf(err), "%v", err)
			l.leftNothing(t, o)
		})
	}
}

// A run never waits for a reader of its output: the pipe may stay full for ever.
// https://github.com/pingcap/tidb-operator/issues/5281
// Catalogue: C2.
func TestStderrIsNotRead_RunEndsAndSeals(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2, 20)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	fill(t, writer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout bytes.Buffer
	ended := make(chan cli.ExitCode, 1)
	go func() {
		ended <- cli.Run(ctx, []string{
			"backup", liveName.String(), "--name", "c2", "-o", "json", "--storage", "s3://" + testbed.Bucket + "/c2", "--log-level", "debug",
			"--endpoint-url", l.AWS(), "--region", testbed.Region, "--kubeconfig", l.Kubeconfig(), "--progress", "plain",
		}, cli.Streams{Out: &stdout, Err: writer}, cli.Version{Version: "test"})
	}()
	select {
	case code := <-ended:
		require.Equal(t, cli.ExitDone, code)
	case <-ctx.Done():
		require.NoError(t, reader.Close()) // unblocks the run
		<-ended
		t.Fatal("the run hangs: nothing reads its stderr")
	}
	require.Contains(t, stdout.String(), `"sealed": true`)
	require.Empty(t, l.c.Held())
	require.NoError(t, writer.Close())
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	require.NoError(t, w.SetWriteDeadline(time.Now().Add(time.Second)))
	page := make([]byte, 4096)
	for {
		if _, err := w.Write(page); err != nil {
			require.True(t, errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EAGAIN), "%v", err)
			break
		}
	}
	require.NoError(t, w.SetWriteDeadline(time.Time{}))
}

// EBS promises no time: a slow snapshot is waited for as long as it makes progress.
// https://github.com/vmware-tanzu/velero/issues/5048
// Catalogue: C3.
func TestOnePercentInFiveMinutes_IsWaitedFor(t *testing.T) {
	t.Parallel()
	const scale = 6000 // 8 h 20 min are 5 s
	l := newLive(t, 1, scale, func(c *testbed.Config) { c.Rules.SnapshotBase = 500 * time.Minute })
	o := l.options()
	o.Stuck = 3 * time.Second
	begin := time.Now()
	result, err := l.backup(t, o)
	l.sealed(t, o, result, err)
	require.Greater(t, time.Since(begin), 5*time.Second, "longer than it may make no progress")
}

// Catalogue: C3.
func TestProgressFrozen_FailsNamingTheSnapshot(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1, 100, func(c *testbed.Config) { c.Rules.SnapshotBase = 10 * time.Minute })
	frozen := ""
	l.calls.describe = func() {
		if frozen == "" {
			p := l.EC2.Snapshots()[1]
			if err := l.EC2.FreezeSnapshot(p.ID); err != nil {
				t.Error(err)
			}
			frozen = string(p.ID)
		}
	}
	o := l.options()
	o.Stuck = 2 * time.Second
	_, err := l.backup(t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no progress for 2s")
	require.ErrorContains(t, err, frozen)
	l.leftNothing(t, o)
}
