package hold_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// process is a backup in a process of its own.
type process struct {
	cmd    *exec.Cmd
	stderr shipped.Output
	ended  <-chan error
}

// launch starts a backup and waits until it hangs in its first CreateSnapshots call, with the cluster held.
func launch(t *testing.T, p *place, args ...string) *process {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Stall, Times: -1})
	b := &process{}
	b.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path, append([]string{
		"backup", prod.String(), "--storage", storage, "--lease", lease.String(), "--max-hold", "2m", "--run-id", "dead",
	}, args...)...)
	b.cmd.Env = append(os.Environ(), p.Env()...)
	b.cmd.Stderr = &b.stderr
	require.NoError(t, b.cmd.Start())
	t.Cleanup(func() { _ = b.cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	b.ended = ended
	await(t, time.Minute, "the cut", func() bool {
		select {
		case err := <-ended:
			require.Fail(t, "the program ended before the cut", "%v\n%s", err, b.stderr.String())
		default:
		}
		return len(p.faults.Unreached()) == 0
	})
	held := p.c.Held()
	for _, want := range []string{"scheduler ", "limit ", "safe point tisnap-dead", "store " + id(p.c.Stores()[0]) + " lease", "store " + id(p.c.Stores()[2]) + " imports"} {
		require.True(t, slices.ContainsFunc(held, func(s string) bool { return len(s) >= len(want) && s[:len(want)] == want }), "%s is held: %v", want, held)
	}
	return b
}

// kill ends the process as the kernel does.
func (b *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, <-b.ended)
}

// exitCode is the exit code of the process, which was not killed.
func (b *process) exitCode(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, <-b.ended, &exit)
	return exit.ExitCode()
}

// reachedWithin waits until all faults have been met.
func (p *place) reachedWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	await(t, limit, "the faults", func() bool { return len(p.faults.Unreached()) == 0 })
}

// What a dead client paused resumes on its own within a lease, and by `tisnap release` at once.
// https://github.com/tikv/tikv/blob/master/components/raftstore/src/store/snapshot_backup.rs
// Catalogue: A12.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	t.Run("it expires", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		launch(t, p).kill(t)
		p.releasedWithin(t, lease+time.Second)
	})
	t.Run("a person releases it", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		launch(t, p, "--lease", "1m").kill(t)
		e := p.run(within(t, time.Minute), "release", prod.String(), "--yes", "--force")
		require.Zero(t, e.code, e.String())
		p.nothingHeld(t)
		for _, s := range p.c.Stores() {
			assert.Contains(t, s.MutatingCalls(), "Finish")
		}
		p.faults.Clear()
		// The next backup finds nothing in its way.
		p.sealed(t, p.backup(t, "--name", "next"), 6)
	})
	t.Run("a second signal ends it at once", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		b := launch(t, p, "--lease", "1m")
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGINT))
		// By the program's output: until it has all the answers it has to report that the cluster may still be held.
		for _, step := range []string{"hold", "early-apply"} {
			await(t, time.Minute, "the undo of "+step, func() bool { return strings.Contains(b.stderr.String(), "undo "+step+": done") })
		}
		p.nothingHeld(t)
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGINT))
		require.Equal(t, 130, b.exitCode(t), b.stderr.String())
		require.Contains(t, b.stderr.String(), "tisnap.io/run=dead")
		require.Contains(t, b.stderr.String(), "tisnap gc --storage "+storage)
		require.NotContains(t, b.stderr.String(), "still held")
	})
	t.Run("a second signal while it is held", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		b := launch(t, p, "--lease", "1m")
		p.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Position: fault.Stall, Times: -1})
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
		p.reachedWithin(t, time.Minute)
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 9, b.exitCode(t), b.stderr.String())
		require.Contains(t, b.stderr.String(), "is still held by run dead")
		require.Contains(t, b.stderr.String(), "tisnap release "+prod.String()+" --storage "+storage)
	})
	t.Run("a second signal while early apply is off", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		b := launch(t, p, "--lease", "1m")
		p.fault(t, fault.Rule{Point: "tikv." + id(p.c.Stores()[0]) + ".Status.PostConfig", Position: fault.Stall, Times: -1})
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGINT))
		p.reachedWithin(t, time.Minute)
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGINT))
		require.Equal(t, 9, b.exitCode(t), b.stderr.String())
		require.Contains(t, b.stderr.String(), "raftstore.max-apply-unpersisted-log-limit was ")
		for _, s := range p.c.Stores() {
			require.Contains(t, b.stderr.String(), "1024 on store "+id(s))
		}
		require.Contains(t, b.stderr.String(), "tisnap release "+prod.String()+" --yes restores")
		require.NotContains(t, b.stderr.String(), "still held", "the hold itself was released before")
	})
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name+" releases it", func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3)
			b := launch(t, p, "--lease", "1m")
			require.NoError(t, b.cmd.Process.Signal(signal))
			require.Equal(t, 128+int(signal), b.exitCode(t), b.stderr.String())
			p.leftNothing(t)
		})
	}
}
