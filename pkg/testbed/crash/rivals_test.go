package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

// rival is the shipped program in a process of its own, beside others.
type rival struct {
	cmd   *exec.Cmd
	out   shipped.Output
	ended chan struct{}
}

// compete starts the program; env comes after the testbed's.
func (w *world) compete(ctx context.Context, t *testing.T, env []string, args ...string) *rival {
	t.Helper()
	r := &rival{cmd: exec.CommandContext(ctx, w.program.Path, append(args, "--storage", storage, "--progress", "plain")...), ended: make(chan struct{})}
	r.cmd.Env = append(append(os.Environ(), w.bed.Env()...), env...)
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.WaitDelay = &r.out, &r.out, 10*time.Second
	require.NoError(t, r.cmd.Start())
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // by its exit code
	}()
	return r
}

// code is how it ended, once it has; -1 of a process that was killed.
func (r *rival) code() int {
	<-r.ended
	return r.cmd.ProcessState.ExitCode()
}

// awaitEnds waits until all of them but one have ended, and returns that one first.
func awaitEnds(ctx context.Context, t *testing.T, all []*rival) (last *rival, others []*rival) {
	t.Helper()
	for {
		last, others = nil, nil
		for _, r := range all {
			select {
			case <-r.ended:
				others = append(others, r)
			default:
				last = r
			}
		}
		require.NotNil(t, last, "all have ended")
		if len(others) == len(all)-1 {
			return last, others
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			require.NoError(t, err, last.out.String())
		}
	}
}

// startWorld starts one that ends with the test.
func startWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
	require.NoError(t, err)
	t.Cleanup(w.bed.Close)
	return w
}

// refuse fails every call of a point until the watcher is replaced: a process that reaches it retries.
func (w *world) refuse(point string) {
	w.faults.Watch(func(at string) *fault.Rule {
		if anyStore(at) == point {
			return &fault.Rule{Position: fault.Before}
		}
		return nil
	})
}

// The same restore, or resolve, is started two and three times at the same moment: one wins, and the others name the owner of
// the lock and until when. What is started beside the winner touches nothing of it.
func TestRivals_RestoreAndResolve_OneWinsAndTheOthersNameIt(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	w := startWorld(ctx, t)
	for _, row := range []struct {
		run Run
		n   int
	}{{Restore, 3}, {Resolve, 2}} {
		t.Run(fmt.Sprintf("%d times %s", row.n, row.run), func(t *testing.T) { // one after the other, in one world
			s := w.scene(row.run)
			require.NoError(t, s.prepare(ctx), w.out.String())
			w.refuse("tikv.*.RecoverRegion") // the winner waits there, with all of its volumes
			var all []*rival
			for range row.n {
				all = append(all, w.compete(ctx, t, nil, append(s.args(), "--timeout", "5m")...))
			}
			winner, losers := awaitEnds(ctx, t, all)
			for _, r := range losers {
				saysWho(t, r, winner, string(row.run))
			}
			awaitText(ctx, t, winner, "recover: started")
			s.untouchedBeside(ctx, t, winner)
			w.faults.Watch(nil)
			require.Zero(t, winner.code(), winner.out.String())
			w.out.Reset()
			require.NoError(t, s.verifyResult(ctx), w.out.String())
		})
	}
	t.Run("prunes, deletes and a gc", func(t *testing.T) { // after the others, in their world
		w.deleteAtOnce(ctx, t)
	})
}

// deleteAtOnce starts all that deletes at the same moment. None needs a lock: what one of them has buried is the others' to
// delete as well, so all succeed, the backup is gone as a whole, and the others stay.
func (w *world) deleteAtOnce(ctx context.Context, t *testing.T) {
	t.Helper()
	s := w.scene(Prune)
	w.out.Reset()
	require.NoError(t, s.prepare(ctx), w.out.String())
	w.faults.Watch(func(at string) *fault.Rule {
		if at == "ec2.DeleteSnapshot" {
			return &fault.Rule{Position: fault.Slow, Delay: 300 * time.Millisecond}
		}
		return nil
	})
	defer w.faults.Watch(nil)
	remove := []string{"delete", s.name, "--yes", "--delete-rate", "100"}
	var all []*rival
	for _, args := range [][]string{s.args(), s.args(), remove, remove, {"gc", "--yes", "--older-than", "0s", "--delete-rate", "100"}} {
		all = append(all, w.compete(ctx, t, nil, args...))
	}
	for _, r := range all {
		require.Zero(t, r.code(), "%v\n%s", r.cmd.Args, r.out.String())
	}
	require.NoError(t, s.verifyDeleted(ctx), w.out.String())
}

// saysWho requires that a process was refused, and named the one that has the lock.
func saysWho(t *testing.T, r, winner *rival, command string) {
	t.Helper()
	require.Equal(t, exitConflict, r.code(), "%s\nthe other one:\n%s", r.out.String(), winner.out.String())
	assert.Regexp(t, fmt.Sprintf(`held by run \S+ \(%s, pid %d on host .+\) since \d{4}-.+Z, renewed last at \d{4}-.+Z`, command, winner.cmd.Process.Pid), r.out.String())
}

// awaitText waits until the process has printed something.
func awaitText(ctx context.Context, t *testing.T, r *rival, text string) {
	t.Helper()
	for !strings.Contains(r.out.String(), text) {
		select {
		case <-r.ended:
			require.Fail(t, "the process ended before it printed "+text, r.out.String())
		default:
		}
		require.NoError(t, wait.For(ctx, 20*time.Millisecond), r.out.String())
	}
}

// untouchedBeside starts what deletes beside a restore that is under way: a gc and a prune leave what it needs, and a
// delete of its backup is refused with the name of the run.
func (s *scene) untouchedBeside(ctx context.Context, t *testing.T, winner *rival) {
	t.Helper()
	volumes, snapshots := len(s.bed.EC2.Volumes()), len(s.bed.EC2.Snapshots())
	s.out.Reset()
	require.NoError(t, s.succeeds(ctx, "gc", "--yes", "--older-than", "0s", "--kept", "--cluster", "--delete-rate", "100"), s.out.String())
	require.NoError(t, s.succeeds(ctx, "prune", source.String(), "--keep-last", "1", "--yes", "--delete-rate", "100"), s.out.String())
	s.out.Reset()
	code, err := s.tisnap(ctx, "delete", s.name, "--last", "--yes", "--delete-rate", "100")
	require.NoError(t, err)
	require.Equal(t, exitConflict, code, s.out.String())
	require.Regexp(t, fmt.Sprintf(`uses it: .*, pid %d on host .+ until \d{4}-.+Z`, winner.cmd.Process.Pid), s.out.String())
	require.Len(t, s.bed.EC2.Volumes(), volumes)
	require.Len(t, s.bed.EC2.Snapshots(), snapshots)
}
