package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

func soakCopyCommand() *cobra.Command {
	s := &seeds{atOnce: 4} // a process that resumes a dead one waits a minute for what EC2 may hide
	var verbose bool
	cmd := &cobra.Command{
		Use:   "soak-copy",
		Short: "Copy backups under lost answers, errors, throttles, deleted sources and kills",
		Long: `Copy a backup by a push or a pull, into another region, account or storage, under lost answers, errors, throttles, deleted
sources and kills, and of one seed in two the copy once more. A copy is complete, or there is none; the same command ends what
failed, also after a gc. In the end all is deleted, and no account may have a snapshot. A failure prints its seed and all output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				r, err := soakCopy(ctx, s.tisnap, seed)
				if err != nil {
					fmt.Fprintln(errs, r.Output)
					return fmt.Errorf("%w\n%s", err, r)
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s: each copy was complete or none, and nothing leaked\n", s)
			return nil
		},
	}
	s.flags(cmd, 20, 8*time.Minute)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "print the program's output of each run")
	return cmd
}

func soakCopy(ctx context.Context, tisnap string, seed int64) (*leak.CopyResult, error) {
	dir, err := os.MkdirTemp("", "tisnap-soak-copy-")
	if err != nil {
		return &leak.CopyResult{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	p := &mortal{path: tisnap}
	return leak.RunCopy(ctx, leak.Config{Dir: dir, Program: p.run, Kill: p.kill, Seed: seed})
}
