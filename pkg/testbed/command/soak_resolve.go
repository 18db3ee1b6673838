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
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
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
	var runs int
	var seed int64
	cmd := &cobra.Command{
		Use:   "soak-resolve",
		Short: "Make restores under faults and kills in their data phase, resume them with resolve, and prove every row",
		Long: `Make restores under faults in every sub-phase of their data phase: calls refused, done with the answer
lost, slow or stalled, region errors, stores that restart, PD's leader changed, tisnap killed; of every second
backup or so the stores refuse the marks, or lose or delay them. A restore that
does not end well is resumed by tisnap resolve. Then the rows have to equal the history at the backup ts,
nothing may be held, and the regions have to cover the key space. A failure prints its seed and all output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			defer s.close()
			kills, resolves, unchanged, start := 0, 0, 0, time.Now()
			for i := range int64(runs) {
				r, err := s.run(cmd.Context(), seed+i)
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), r.Output)
					return fmt.Errorf("seed %d: %w\n%s\nrun it again with: make soak-resolve N=1 SEED=%d", seed+i, err, r, seed+i)
				}
				if s.verbose {
					fmt.Fprintln(cmd.OutOrStdout(), r.Output)
				}
				kills, resolves, unchanged = kills+r.Kills, resolves+r.Resolves, unchanged+r.Unchanged
				fmt.Fprintf(cmd.OutOrStdout(), "seed %d: %s (backup: %s)\n", seed+i, r, s.from.MarkTrouble())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d restores, seeds %d to %d, with %d kills and %d resolves in %s: every row was right; %d regions were unchanged\n",
				runs, seed, seed+int64(runs)-1, kills, resolves, time.Since(start).Round(time.Second), unchanged)
			return enoughUnchanged(s.marks, unchanged, s.wanted)
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 20, "number of restores")
	f.Int64Var(&seed, "seed", 0, "seed of the first restore (default: the clock's)")
	f.StringVar(&s.tisnap, "tisnap", beside(), "the program under test")
	f.IntVar(&s.wanted, "min-unchanged", 0, "fail if fewer regions were found unchanged in all")
	f.StringVar(&s.marks, "marks", "auto", "the backups' --marks: auto or off")
	f.DurationVar(&s.deadline, "deadline", 5*time.Minute, "how long one restore may take with all that it goes through")
	f.DurationVar(&s.timeout, "timeout", 20*time.Second, "the program's --timeout")
	f.BoolVar(&s.verbose, "verbose", false, "print the program's output of each run")
	return cmd
}

// resolveSoak is a soak of the data phase with the backup that its restores are of.
type resolveSoak struct {
	tisnap, marks     string
	deadline, timeout time.Duration
	verbose           bool
	wanted            int

	dir    string
	first  int64
	faults *fault.Plan
	from   *round.Prepared
}

func (s *resolveSoak) run(ctx context.Context, seed int64) (*resume.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	if first := seed - seed%seedsOfBackup; s.from == nil || s.first != first {
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
	s.dir, s.first, s.faults = dir, first, &fault.Plan{}
	s.from, err = round.Prepare(ctx, round.Config{
		Dir: dir, Seed: first, Scale: 20, Faults: s.faults, MarkTrouble: true, Accounts: 500, Regions: resolveRegions, Clients: 4, Warm: 150 * time.Millisecond,
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
