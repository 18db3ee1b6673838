package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

// volumesPerStore is TiKV's data and its raft log.
const volumesPerStore = 2

func benchEBSCommand() *cobra.Command {
	sizes, speed := []int{20, 100, 300, 1000}, benchSpeed
	cmd := &cobra.Command{
		Use:   "bench-ebs",
		Short: "Measure cutting, restoring and deleting volumes against EC2's request limits, as JSON",
		Long: `Measure cutting, restoring and deleting volumes against EC2's request limits: the adapter that tisnap ships
against the stand-in for EC2, with the default buckets of an account that no one else uses, quotas that are high
enough, and EC2's latencies. Time is scaled; the figures are in EC2's seconds. The result goes to stdout as JSON
and to stderr as a table, each figure beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range sizes {
				if n < 1 || n > 5000 {
					return fmt.Errorf("%d stores cannot be measured; 1 to 5000 can", n)
				}
			}
			if speed <= 0 || speed > 100 {
				return fmt.Errorf("--speed %g: want more than 0, and up to 100", speed)
			}
			return benchEBS(cmd.Context(), sizes, speed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntSliceVar(&sizes, "stores", sizes, "numbers of stores to measure, of 2 volumes each")
	cmd.Flags().Float64Var(&speed, "speed", speed, "EC2's seconds in one of this machine's; less is less noisy")
	return cmd
}

func benchEBS(ctx context.Context, sizes []int, speed float64, stdout, stderr io.Writer) error {
	if err := awsenv.Isolate(); err != nil {
		return err
	}
	result := benchResult{Kind: "EBSBenchmark", Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0), Met: true}
	for _, stores := range sizes {
		found, err := benchAccount(ctx, stores, speed)
		for _, f := range found {
			f = f.judged()
			fmt.Fprintln(stderr, f)
			result.Figures = append(result.Figures, f)
			result.Met = result.Met && f.Met
		}
		if err != nil {
			return fmt.Errorf("%d stores: %w", stores, err)
		}
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(result); err != nil {
		return err
	}
	if !result.Met {
		return fmt.Errorf("not all figures are what they must be")
	}
	return nil
}
