package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

func soakCommand() *cobra.Command {
	s := &seeds{}
	var marks string
	unchanged, wanted := 0, 0
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Make rounds of the demo's job, small and with random seeds",
		Long: `Make rounds of the demo's job, small and with random seeds: apply lag, flush times, EC2's latencies,
splits, leader moves during the hold, and what goes wrong while the backup reads its marks differ in each. A
failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				r, err := soak(ctx, s.tisnap, marks, seed, out, errs)
				if err == nil {
					unchanged += r.Unchanged
				}
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: every restored row was right; %d regions were unchanged\n", s, unchanged)
			return enoughUnchanged(marks, unchanged, wanted)
		},
	}
	s.flags(cmd, 20, 2*time.Minute)
	f := cmd.Flags()
	f.StringVar(&marks, "marks", "auto", "the backups' --marks: auto or off")
	f.IntVar(&wanted, "min-unchanged", 0, "fail if fewer regions were found unchanged in all")
	return cmd
}

func soak(ctx context.Context, tisnap, marks string, seed int64, out, errs io.Writer) (*round.Result, error) {
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
		fmt.Fprintf(errs, "%s\n%s\n%s\n", r.MarkTrouble, stderr.String(), stdout.String())
		return nil, err
	}
	fmt.Fprintf(out, "seed %d: %d rows in %d regions, %d of them unchanged, are right after %d transfers, %d of them during the backup (%s; %s)\n",
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
