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
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

func soakEBSCommand() *cobra.Command {
	var runs int
	var seed int64
	var tisnap string
	var deadline time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:   "soak-ebs",
		Short: "Make backups, restores and deletes under lost answers and kills, and prove that nothing leaks",
		Long: `Make backups, restores and deletes of a small cluster, with a lost answer on every EC2 action that
changes something, other faults and kills at random, and gc after what failed. Then EC2 has to hold exactly
the snapshots and volumes that sealed manifests and clusters name. A failure prints its seed and all output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			collected, start := 0, time.Now()
			for i := range int64(runs) {
				r, err := soakEBS(cmd.Context(), tisnap, seed+i, deadline)
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), r.Output)
					return fmt.Errorf("%w\n%s\nrun it again with: make soak-ebs N=1 SEED=%d", err, r, seed+i)
				}
				if r.GC {
					collected++
				}
				if verbose {
					fmt.Fprintln(cmd.OutOrStdout(), r.Output)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "seed %d: %s\n", seed+i, r)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d runs, seeds %d to %d, gc after %d of them, in %s: nothing leaked and nothing is missing\n",
				runs, seed, seed+int64(runs)-1, collected, time.Since(start).Round(time.Second))
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 20, "number of runs")
	f.Int64Var(&seed, "seed", 0, "seed of the first run (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.DurationVar(&deadline, "deadline", 8*time.Minute, "how long one run may take")
	f.BoolVar(&verbose, "verbose", false, "print the program's output of each run")
	return cmd
}

func soakEBS(ctx context.Context, tisnap string, seed int64, deadline time.Duration) (*leak.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
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
	cmd := exec.CommandContext(ctx, m.path, args...) //nolint:gosec // the flag says what to run
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
