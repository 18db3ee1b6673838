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
		Short: "Kill and suspend archives and prunes at random instants, and prove that no archive loses a block",
		Long: `Archive backups of two clusters into one repository, by three writers at a time, beside two prunes that rewrite packs,
beside forgets and verifications. Processes are killed and suspended at random instants, and leases look dead, of processes
that are and of others. In the end each archive has each block of its snapshots unless it was forgotten, and after two quiet
prunes nothing is left that none needs.

Then (--kills) archive a backup again and again, each time into a new repository, in a process that is killed at a random
instant. The same command has to end with 0, with one archive, which has each block of the snapshots; and it may read nothing
again that a stored pack has. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var sum crash.KillsResult
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				begin := time.Now()
				f, err := crash.Fleet(ctx, crash.FleetConfig{Tisnap: s.tisnap, Seed: seed})
				if err != nil {
					fmt.Fprintln(errs, f.Output)
					return err
				}
				fmt.Fprintf(out, "seed %d: %d archives, %d forgotten, %d replaced by prunes; %d processes killed, %d suspended, %d leases looked dead (%s)\n",
					seed, f.Archives, f.Forgotten, f.Rewritten, f.Killed, f.Suspended, f.Aged, time.Since(begin).Round(time.Second))
				if kills == 0 {
					return nil
				}
				return killArchives(ctx, crash.KillsConfig{Tisnap: s.tisnap, Seed: seed, Kills: kills, Prunes: true}, &sum, out, errs)
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
	cmd.Flags().IntVar(&kills, "kills", 6, "kills of each run; 0 leaves them out")
	return cmd
}

// killArchives kills archives of one seed, and adds what they met to the sum.
func killArchives(ctx context.Context, c crash.KillsConfig, sum *crash.KillsResult, out, errs io.Writer) error {
	begin := time.Now()
	r, err := crash.Kills(ctx, c)
	if err != nil {
		fmt.Fprintln(errs, r.Output)
		return err
	}
	sum.Kills, sum.MostAgain = sum.Kills+r.Kills, max(sum.MostAgain, r.MostAgain)
	fmt.Fprintf(out, "seed %d: %d kills, %d came late; at most %d of %d blocks were read twice (%s)\n",
		c.Seed, r.Kills, r.Late, r.MostAgain, r.Reads, time.Since(begin).Round(time.Second))
	return nil
}

func soakKillsCommand() *cobra.Command {
	s := &seeds{}
	kills := 10
	cmd := &cobra.Command{
		Use:   "soak-kills",
		Short: "Kill archives at random instants: the same command finishes each, and reads little twice",
		Long: `Archive a backup --kills times, each time into a new repository, by the shipped program in a process that is killed at a
random instant. The same command has to end with 0, with one archive, which is restored and has each block of the snapshots.
The stand-in of EBS counts the blocks that both processes read: no more may be read twice than packs under way have, and what
is read ahead of them. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var sum crash.KillsResult
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				return killArchives(ctx, crash.KillsConfig{Tisnap: s.tisnap, Seed: seed, Kills: kills}, &sum, out, errs)
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
	cmd.Flags().IntVar(&kills, "kills", kills, "of each run")
	return cmd
}
