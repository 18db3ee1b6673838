package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/crash"
)

func crashCommand() *cobra.Command {
	var cfg crash.Config
	var runs, positions []string
	var then string
	cmd := &cobra.Command{
		Use:   "crash",
		Short: "Kill every run at every step, run it again, and prove that nothing is lost, leaked or held",
		Long: `Kill the program at every step of every run, in every position of the step: before its effect, before the
answer of each kind of call that changes something, before its journal record, in its undo and after it. Then it
is run again. Nothing may be held longer than a lease, EC2 has to hold exactly what sealed manifests and clusters
name, and every row has to be right. The matrix is made from the steps and from an undisturbed run; a prune,
a delete, a lock and an adoption, which have no journal, are killed before and after each kind of call that changes something.

With --at suspended, and suspended-undo for the undo of each step that has one, it is stopped instead, as kill -STOP does, until
another process has taken its lock over and has finished its run. When it is continued it has to end with exit code 6 (in an undo
also with 143, a backup with 9), and may change nothing. Each takes a minute, in which nothing happens: that is how long
the lock is watched.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			for _, r := range runs {
				cfg.Runs = append(cfg.Runs, crash.Run(r))
			}
			for _, p := range positions {
				if !slices.Contains(crash.Positions(), crash.Position(p)) {
					return fmt.Errorf("--at %q: want one of %q", p, crash.Positions())
				}
				cfg.At = append(cfg.At, crash.Position(p))
			}
			if cfg.Then = crash.Then(then); !slices.Contains(crash.Thens(), cfg.Then) {
				return fmt.Errorf("--then %q: want one of %q", then, crash.Thens()[1:])
			}
			return playMatrix(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&runs, "run", nil, "the runs to kill (default: all)")
	f.StringSliceVar(&positions, "at", nil, "only the cells of these positions, such as suspended or suspended-undo (default: all that kill)")
	f.StringVar(&then, "then", "", "what follows each kill of a restore, before it is run again: abort, gc, or gc-cluster")
	f.StringVar(&cfg.Only, "only", "", "the one cell of this name")
	f.IntVar(&cfg.Sample, "sample", 0, "so many cells of each run, spread over all")
	f.Int64Var(&cfg.Seed, "seed", 0, "the cell with which the sample begins")
	f.StringVar(&cfg.Tisnap, "tisnap", beside(), "the program under test")
	f.IntVar(&cfg.Worlds, "worlds", 4, "testbeds at the same time")
	f.DurationVar(&cfg.Deadline, "deadline", 4*time.Minute, "how long one cell may take")
	return cmd
}

// playMatrix plays it, and prints what failed and the matrix.
func playMatrix(ctx context.Context, cfg crash.Config, stdout, stderr io.Writer) error {
	start := time.Now()
	var mu sync.Mutex // of stderr
	cfg.Report = func(o crash.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		verdict := "right"
		if o.Err != nil {
			verdict = "FAILED: " + o.Err.Error()
		}
		fmt.Fprintf(stderr, "%s: %s (%s)\n", o.Cell, verdict, o.Took.Round(100*time.Millisecond))
	}
	outcomes, err := crash.Play(ctx, cfg)
	failed := 0
	for _, o := range outcomes {
		if o.Err != nil {
			failed++
			fmt.Fprintf(stderr, "\n%s\n%s: %v\nrun it again with: make crash RUNS=%s THEN=%s ONLY=%q\n", o.Output, o.Cell, o.Err, o.Cell.Run, o.Cell.Then, o.Cell)
		}
	}
	fmt.Fprint(stdout, crash.Table(outcomes))
	if err != nil {
		return err
	}
	if failed > 0 || len(outcomes) == 0 {
		return fmt.Errorf("%d of %d cells failed", failed, len(outcomes))
	}
	fmt.Fprintf(stdout, "%d cells in %s: after each of them the run was run again, nothing was lost, leaked or held, and every row was right\n",
		len(outcomes), time.Since(start).Round(time.Second))
	return nil
}
