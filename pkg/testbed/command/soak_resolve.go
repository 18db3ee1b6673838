package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/resume"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// One backup serves this many seeds: it follows the first of them, so that any seed can be repeated alone.
const seedsOfBackup = 10

// resolveRegions is into how many regions the accounts of soak-resolve are split.
const resolveRegions = 20

func soakResolveCommand() *cobra.Command {
	s := &resolveSoak{}
	cmd := &cobra.Command{
		Use:   "soak-resolve",
		Short: "Make restores under faults and kills in their data phase, resume them with resolve, and prove every row",
		Long: `Make restores under faults in every sub-phase of their data phase: calls refused, done with the answer
lost, slow or stalled, region errors, stores that restart, PD's leader changed, tisnap killed; of every second
backup or so the stores refuse the marks, or lose or delay them, and raft logs stall during each. A restore that
does not end well is resumed by tisnap resolve. Then the rows have to equal the history at the backup ts,
nothing may be held, the regions have to cover the key space, and each store's own data have to be its regions'
leaders'. A failure prints its seed and all output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer s.close()
			kills, resolves, unchanged := 0, 0, 0
			err := s.each(cmd, func(ctx context.Context, seed int64, out, errs io.Writer) error {
				r, err := s.run(ctx, seed)
				if err != nil {
					fmt.Fprintln(errs, r.Output)
					return fmt.Errorf("%w\n%s", err, r)
				}
				if s.verbose {
					fmt.Fprintln(out, r.Output)
				}
				kills, resolves, unchanged = kills+r.Kills, resolves+r.Resolves, unchanged+r.Unchanged
				fmt.Fprintf(out, "seed %d: %s (backup: %s; %s)\n", seed, r, s.from.MarkTrouble(), s.from.LogTrouble())
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, with %d kills and %d resolves: every row was right; %d regions were unchanged\n",
				&s.seeds, kills, resolves, unchanged)
			return enoughUnchanged(s.marks, unchanged, s.wanted)
		},
	}
	s.flags(cmd, 20, 5*time.Minute)
	f := cmd.Flags()
	f.IntVar(&s.wanted, "min-unchanged", 0, "fail if fewer regions were found unchanged in all")
	f.StringVar(&s.marks, "marks", "auto", "the backups' --marks: auto or off")
	f.DurationVar(&s.timeout, "timeout", 20*time.Second, "the program's --timeout")
	f.BoolVar(&s.verbose, "verbose", false, "print the program's output of each run")
	return cmd
}

// resolveSoak is a soak of the data phase with the backup that its restores are of.
type resolveSoak struct {
	seeds
	marks   string
	timeout time.Duration
	verbose bool
	wanted  int

	dir    string
	group  int64 // the first seed of the backup
	faults *fault.Plan
	from   *round.Prepared
}

func (s *resolveSoak) run(ctx context.Context, seed int64) (*resume.Result, error) {
	if first := seed - seed%seedsOfBackup; s.from == nil || s.group != first {
		if err := s.prepare(ctx, first); err != nil {
			return &resume.Result{}, fmt.Errorf("prepare: %w", err)
		}
	}
	p := &mortal{path: s.tisnap}
	return resume.Run(ctx, resume.Config{
		From: s.from, Faults: s.faults, Regions: resolveRegions, Program: p.run, Kill: p.kill, Seed: seed, Timeout: s.timeout,
	})
}

// prepare makes a backup of a cluster under load and destroys the cluster.
func (s *resolveSoak) prepare(ctx context.Context, first int64) error {
	s.close()
	dir, err := os.MkdirTemp("", "tisnap-soak-resolve-")
	if err != nil {
		return err
	}
	s.dir, s.group, s.faults = dir, first, &fault.Plan{}
	s.from, err = round.Prepare(ctx, round.Config{
		Dir: dir, Seed: first, Scale: 20, Faults: s.faults, MarkTrouble: true, LogTrouble: true, Accounts: 500, Regions: resolveRegions, Clients: 4, Warm: 150 * time.Millisecond,
		Tisnap: binary(s.tisnap, io.Discard, os.Stderr), BackupFlags: []string{"--marks", s.marks},
		PD: pdtest.Config{Members: 3, ElectionTimeout: time.Second, CoordinatorDelay: 300 * time.Millisecond},
		TiKV: func(o *tikvtest.Options) {
			o.TickInterval, o.RecoverCheckInterval = 40*time.Millisecond, 300*time.Millisecond
			o.StoreHeartbeatInterval, o.RegionHeartbeatInterval = 200*time.Millisecond, 500*time.Millisecond
		},
	})
	return err
}

func (s *resolveSoak) close() {
	if s.from != nil {
		s.from.Close()
		s.from = nil
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // a kubeconfig of servers that are gone
	}
}
