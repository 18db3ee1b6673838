package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/round"
)

func soakCommand() *cobra.Command {
	var runs int
	var seed int64
	var tisnap, marks string
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Make rounds of the demo's job, small and with random seeds",
		Long: `Make rounds of the demo's job, small and with random seeds: apply lag, flush times, EC2's latencies,
splits and leader moves during the hold differ in each. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			for i := range int64(runs) {
				if err := soak(cmd.Context(), cmd, tisnap, marks, seed+i, deadline); err != nil {
					return fmt.Errorf("%w\nrun it again with: make soak N=1 SEED=%d", err, seed+i)
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d rounds, seeds %d to %d: every restored row was right\n", runs, seed, seed+int64(runs)-1)
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 20, "number of rounds")
	f.Int64Var(&seed, "seed", 0, "seed of the first round (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.StringVar(&marks, "marks", "auto", "the backups' --marks: auto or off")
	f.DurationVar(&deadline, "deadline", 2*time.Minute, "how long one round may take")
	return cmd
}

func soak(ctx context.Context, cmd *cobra.Command, tisnap, marks string, seed int64, deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	dir, err := os.MkdirTemp("", "tisnap-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	var stdout, stderr bytes.Buffer
	start := time.Now()
	r, err := round.Run(ctx, round.Config{
		Dir: dir, Tisnap: binary(tisnap, &stdout, &stderr), Seed: seed, Scale: 4, BackupFlags: []string{"--marks", marks},
	})
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n%s\n", stderr.String(), stdout.String())
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "seed %d: %d rows in %d regions are right after %d transfers, %d of them during the backup (%s)\n",
		seed, r.Rows, r.Regions, r.Commits, r.During, time.Since(start).Round(100*time.Millisecond))
	return nil
}
