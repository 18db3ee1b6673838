package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/crash"
)

func soakArchiveCommand() *cobra.Command {
	s := &seeds{}
	var kills int
	cmd := &cobra.Command{
		Use:   "soak-archive",
		Short: "Kill archives at random instants, and prove that the same command ends them right",
		Long: `Archive a backup again and again, each time into a new repository, in a process that is killed at a random instant.
The same command has to end with 0, with one archive, which has each block of the snapshots; and it may read nothing again
that a stored pack has. Prunes run beside it, and are killed, too; once another archive is made and the first one is
forgotten, two prunes have to leave nothing that is not needed, and the archive whole. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var sum crash.KillsResult
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				begin := time.Now()
				r, err := crash.Kills(ctx, crash.KillsConfig{Tisnap: s.tisnap, Seed: seed, Kills: kills})
				if err != nil {
					fmt.Fprintln(errs, r.Output)
					return err
				}
				sum.Kills, sum.MostAgain = sum.Kills+r.Kills, max(sum.MostAgain, r.MostAgain)
				fmt.Fprintf(out, "seed %d: %d kills, %d came late; at most %d of %d blocks were read twice (%s)\n",
					seed, r.Kills, r.Late, r.MostAgain, r.Reads, time.Since(begin).Round(time.Second))
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, %d kills: each archive was finished, and each block right; at most %d were read twice\n",
				s, sum.Kills, sum.MostAgain)
			return nil
		},
	}
	s.flags(cmd, 10, 12*time.Minute)
	cmd.Flags().IntVar(&kills, "kills", 6, "kills of each run")
	return cmd
}
