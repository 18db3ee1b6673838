package command

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/crash"
)

func chaosCommand() *cobra.Command {
	s, generation := &seeds{}, operator(1)
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
			var processes atomic.Int64
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				begin := time.Now()
				r, err := crash.Chaos(ctx, crash.ChaosConfig{Tisnap: s.tisnap, Seed: seed, Operator: int(generation)})
				processes.Add(int64(r.Processes))
				if err != nil {
					fmt.Fprintln(errs, r.Output)
					return err
				}
				fmt.Fprintf(out, "seed %d: right after %d processes, %d faults and kills (%s)\n", seed, r.Processes, len(r.Met), time.Since(begin).Round(time.Second))
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, of %d processes: nothing was lost, leaked or held, and every row was right\n", s, processes.Load())
			return nil
		},
	}
	generation.flag(cmd)
	s.flags(cmd, 20, 5*time.Minute)
	cmd.Flags().IntVar(&s.atOnce, "at-once", 4, "runs at the same time, each on a testbed of its own")
	return cmd
}
