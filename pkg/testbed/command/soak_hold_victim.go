package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/mishap"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

// victim is the program under mishaps.
type victim struct {
	path string
	seed int64
	plan *fault.Plan
	bed  *testbed.Testbed

	what   []string
	killed bool
	code   int
	output shipped.Output
}

// program runs tisnap as it is; what goes wrong goes wrong in the backup.
func (v *victim) program(bed *testbed.Testbed) round.Tisnap {
	v.bed = bed
	return func(ctx context.Context, args []string, out io.Writer) (int, error) {
		if args[0] != "backup" {
			return v.run(ctx, args, out, nil)
		}
		return 0, v.backup(ctx, append(args, "--lease", soakLease.String(), "--max-hold", "8s", "--steady", "1s",
			"--hold-attempts", "2", "--timeout", "2m"))
	}
}

// backup runs the backup under mishaps and checks what it left: nil if it is sealed.
func (v *victim) backup(ctx context.Context, args []string) error {
	c := v.bed.Nodes.Cluster(round.Source())
	if mishap.DrawForeign(v.seed) {
		return v.refused(ctx, c, args)
	}
	process := make(chan *os.Process, 1)
	scene := &mishap.Scene{Bed: v.bed, Cluster: c, Plan: v.plan, Signal: func(sig syscall.Signal) {
		select {
		case p := <-process:
			_ = p.Signal(sig) // it may have exited already
		default:
		}
	}}
	drawn := mishap.Draw(v.seed, scene)
	for _, m := range drawn {
		v.what, v.killed = append(v.what, m.What), v.killed || m.Killed
	}
	if err := scene.Begin(ctx, drawn); err != nil {
		return err
	}
	code, err := v.run(ctx, args, nil, process)
	v.code = code
	if err != nil {
		return err
	}
	left := v.held(ctx, c)
	scene.End()
	if left != nil {
		return left
	}
	if v.sealed(ctx) {
		return nil
	}
	if code == 0 {
		return fmt.Errorf("%w: it ended with 0 and is not sealed", errWrong)
	}
	return errors.Join(v.swept(ctx), errUndone)
}

// refused runs the backup of a cluster that another tool holds: it is refused, and the other keeps its hold.
func (v *victim) refused(ctx context.Context, c *testbed.Cluster, args []string) error {
	const exitConflict = 6
	v.what = []string{"another tool holds the cluster"}
	other, err := mishap.HoldForeign(ctx, c)
	if err != nil {
		return err
	}
	v.code, err = v.run(ctx, args, nil, nil)
	if endErr := other.End(ctx); endErr != nil {
		return fmt.Errorf("%w: %w", errWrong, endErr)
	}
	if err != nil {
		return err
	}
	if v.code != exitConflict {
		return fmt.Errorf("%w: it ended with %d and not with %d", errWrong, v.code, exitConflict)
	}
	return errors.Join(v.held(ctx, c), v.swept(ctx), errUndone)
}

// held checks the cluster at once, or, if the program was killed or reported that it could not release the cluster, after a lease.
func (v *victim) held(ctx context.Context, c *testbed.Cluster) error {
	const exitHeld = 9
	limit := time.Duration(0)
	if v.code < 0 || v.code == exitHeld {
		limit = soakLease + time.Second
	}
	if v.code == exitHeld && !strings.Contains(v.output.String(), "tisnap release tidb/prod") {
		return fmt.Errorf("%w: it does not name the command that releases the cluster", errWrong)
	}
	end := time.Now().Add(limit)
	for len(c.Held()) > 0 {
		if time.Now().After(end) {
			return fmt.Errorf("%w: held %s after the end: %v", errWrong, limit, c.Held())
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// sealed asks the program itself, once the faults are over.
func (v *victim) sealed(ctx context.Context) bool {
	code, err := v.run(ctx, []string{"describe", round.BackupID, "--storage", round.Storage}, io.Discard, nil)
	return err == nil && code == 0
}

// swept requires that no snapshot is left; those of a run that was killed are gc's to delete.
func (v *victim) swept(ctx context.Context) error {
	if v.code < 0 { // its lock has not expired: an operator declares it dead
		if code, err := v.run(ctx, []string{"release", round.Source().String(), "--yes", "--force", "--storage", round.Storage}, nil, nil); err != nil || code != 0 {
			return fmt.Errorf("%w: release after a kill ended with %d: %w", errWrong, code, err)
		}
		if code, err := v.run(ctx, []string{"gc", "--yes", "--older-than", "0s", "--storage", round.Storage}, nil, nil); err != nil || code != 0 {
			return fmt.Errorf("%w: gc after a kill ended with %d: %w", errWrong, code, err)
		}
	}
	if left := v.bed.EC2.Snapshots(); len(left) > 0 {
		return fmt.Errorf("%w: %d snapshots", errWrong, len(left))
	}
	return nil
}

// run runs the program in a process of its own. One that a signal ended has a code below 0.
func (v *victim) run(ctx context.Context, args []string, out io.Writer, started chan<- *os.Process) (int, error) {
	if out == nil {
		out = &v.output
	}
	fmt.Fprintf(&v.output, "$ tisnap %s\n", join(args))
	cmd := exec.CommandContext(ctx, v.path, args...) //nolint:gosec // the program that the flag names
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), v.bed.Env()...)
	cmd.Stdout, cmd.Stderr = out, &v.output
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if started != nil {
		started <- cmd.Process
	}
	err := cmd.Wait()
	if cmd.ProcessState != nil {
		return cmd.ProcessState.ExitCode(), ctx.Err()
	}
	return 0, err
}
