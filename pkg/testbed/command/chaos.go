package command

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/crash"
)

func chaosCommand() *cobra.Command {
	var rounds, atOnce int
	var seed int64
	var tisnap string
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Back up and restore with random kills and random faults of all systems at once, and prove every row",
		Long: `Back a cluster up under load and restore it, again and again. The first processes of each command are killed, or
asked to stop, at a random record or effect, while one call each of S3, EC2, PD, TiKV and Kubernetes is refused, slow, or
done with its answer lost. The same command is given again until it succeeds. Nothing may be held for longer than a lease,
a backup is sealed only if it is complete, EC2 has to hold exactly what sealed manifests and clusters name, and every row
has to be right. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			seeds := make([]int64, rounds)
			for i := range seeds {
				seeds[i] = seed + int64(i)
			}
			var mu sync.Mutex // of the output and of what follows
			processes, failed, start := 0, 0, time.Now()
			err := parallel.Each(cmd.Context(), atOnce, seeds, func(ctx context.Context, _ int, seed int64) error {
				ctx, cancel := context.WithTimeout(ctx, deadline)
				defer cancel()
				begin := time.Now()
				r, err := crash.Chaos(ctx, crash.ChaosConfig{Tisnap: tisnap, Seed: seed})
				mu.Lock()
				defer mu.Unlock()
				processes += r.Processes
				if err != nil {
					failed++
					fmt.Fprintf(cmd.ErrOrStderr(), "%s\nFAILED: %v\nrun it again with: make chaos N=1 SEED=%d\n", r.Output, err, seed)
					return nil // the other seeds may find something else
				}
				fmt.Fprintf(cmd.OutOrStdout(), "seed %d: right after %d processes, %d faults and kills (%s)\n", seed, r.Processes, len(r.Met), time.Since(begin).Round(time.Second))
				return nil
			})
			if err != nil {
				return err
			}
			if failed > 0 || rounds < 1 {
				return fmt.Errorf("%d of %d rounds failed", failed, rounds)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d rounds, seeds %d to %d, of %d processes in %s: nothing was lost, leaked or held, and every row was right\n",
				rounds, seed, seed+int64(rounds)-1, processes, time.Since(start).Round(time.Second))
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&rounds, "rounds", 20, "number of rounds")
	f.IntVar(&atOnce, "at-once", 4, "rounds at the same time, each on a testbed of its own")
	f.Int64Var(&seed, "seed", 0, "seed of the first (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.DurationVar(&deadline, "deadline", 5*time.Minute, "how long one round may take")
	return cmd
}
