package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

func soakCommand() *cobra.Command {
	var runs int
	var seed int64
	var tisnap, marks string
	unchanged, wanted := 0, 0
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Make rounds of the demo's job, small and with random seeds",
		Long: `Make rounds of the demo's job, small and with random seeds: apply lag, flush times, EC2's latencies,
splits, leader moves during the hold, and what goes wrong while the backup reads its marks differ in each. A
failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			for i := range int64(runs) {
				r, err := soak(cmd.Context(), cmd, tisnap, marks, seed+i, deadline)
				if err != nil {
					return fmt.Errorf("%w\nrun it again with: make soak N=1 SEED=%d", err, seed+i)
				}
				unchanged += r.Unchanged
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d rounds, seeds %d to %d: every restored row was right; %d regions were unchanged\n",
				runs, seed, seed+int64(runs)-1, unchanged)
			return enoughUnchanged(marks, unchanged, wanted)
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 20, "number of rounds")
	f.Int64Var(&seed, "seed", 0, "seed of the first round (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.StringVar(&marks, "marks", "auto", "the backups' --marks: auto or off")
	f.IntVar(&wanted, "min-unchanged", 0, "fail if fewer regions were found unchanged in all")
	f.DurationVar(&deadline, "deadline", 2*time.Minute, "how long one round may take")
	return cmd
}

func soak(ctx context.Context, cmd *cobra.Command, tisnap, marks string, seed int64, deadline time.Duration) (*round.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	dir, err := os.MkdirTemp("", "tisnap-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	var stdout, stderr bytes.Buffer
	start := time.Now()
	r, err := round.Run(ctx, round.Config{
		Dir: dir, Tisnap: binary(tisnap, &stdout, &stderr), Seed: seed, Scale: 4, BackupFlags: []string{"--marks", marks},
		Faults: &fault.Plan{}, MarkTrouble: true,
	})
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n%s\n%s\n", r.MarkTrouble, stderr.String(), stdout.String())
		return nil, err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "seed %d: %d rows in %d regions, %d of them unchanged, are right after %d transfers, %d of them during the backup (%s; %s)\n",
		seed, r.Rows, r.Regions, r.Unchanged, r.Commits, r.During, time.Since(start).Round(100*time.Millisecond), r.MarkTrouble)
	return r, nil
}

// enoughUnchanged checks a whole soak: none may be unchanged without marks, and with them as many as are asked for.
func enoughUnchanged(marks string, unchanged, wanted int) error {
	if marks == "off" && unchanged > 0 {
		return fmt.Errorf("%d regions were found unchanged of backups without marks", unchanged)
	}
	if unchanged < wanted {
		return fmt.Errorf("%d regions were found unchanged, and %d are asked for: the rest of these runs proved nothing of them", unchanged, wanted)
	}
	return nil
}
