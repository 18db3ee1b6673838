package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

func soakEBSCommand() *cobra.Command {
	s := &seeds{}
	var verbose bool
	cmd := &cobra.Command{
		Use:   "soak-ebs",
		Short: "Make backups, restores and deletes under lost answers and kills, and prove that nothing leaks",
		Long: `Make backups, restores and deletes of a small cluster, with a lost answer on every EC2 action that
changes something, other faults and kills at random, and gc after what failed. Then EC2 has to hold exactly
the snapshots and volumes that sealed manifests and clusters name. A failure prints its seed and all output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			collected := 0
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				r, err := soakEBS(ctx, s.tisnap, seed)
				if err != nil {
					fmt.Fprintln(errs, r.Output)
					return fmt.Errorf("%w\n%s", err, r)
				}
				if r.GC {
					collected++
				}
				if verbose {
					fmt.Fprintln(out, r.Output)
				}
				fmt.Fprintf(out, "seed %d: %s\n", seed, r)
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, gc after %d of them: nothing leaked and nothing is missing\n", s, collected)
			return nil
		},
	}
	s.flags(cmd, 20, 8*time.Minute)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "print the program's output of each run")
	return cmd
}

func soakEBS(ctx context.Context, tisnap string, seed int64) (*leak.Result, error) {
	dir, err := os.MkdirTemp("", "tisnap-soak-ebs-")
	if err != nil {
		return &leak.Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	p := &mortal{path: tisnap}
	return leak.Run(ctx, leak.Config{Dir: dir, Program: p.run, Kill: p.kill, Seed: seed})
}

// mortal is the shipped program in a process of its own, one at a time, that can be killed.
type mortal struct {
	path string

	mu      sync.Mutex
	process *os.Process
}

// run is a leak.Program; a program that was killed ends with -1.
func (m *mortal) run(ctx context.Context, bed *testbed.Testbed, args []string, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, m.path, args...) //nolint:gosec // the program that the flag names
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), bed.Env()...)
	cmd.Stdout, cmd.Stderr = out, out
	m.mu.Lock()
	err := cmd.Start()
	m.process = cmd.Process
	m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	err = cmd.Wait()
	m.mu.Lock()
	m.process = nil
	m.mu.Unlock()
	var exit *exec.ExitError
	if err == nil || (errors.As(err, &exit) && ctx.Err() == nil) {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, err
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		_ = m.process.Kill() // it may have ended at this moment
	}
}
