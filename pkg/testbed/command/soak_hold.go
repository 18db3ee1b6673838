package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// soakLease is the shortest that a hold takes. PD and TiKV count whole seconds, so what dies holds up to one longer.
const soakLease = 3 * time.Second

// soakScale is how many times as fast EC2 and the Operator are.
const soakScale = 20

func soakHoldCommand() *cobra.Command {
	s := &holdSoak{}
	cmd := &cobra.Command{
		Use:   "soak-hold",
		Short: "Make backups during which something goes wrong, at a random call",
		Long: `Make backups of a cluster under load during which something goes wrong, at a random call: a call is refused,
loses its answer, hangs or is slow; a store restarts or forgets; PD restarts, changes its leader or is tampered with;
a region merges or splits just before the leases; another tool holds the cluster; the program gets a signal. A backup that is sealed is restored, and every row is checked. One that is not leaves
nothing held within one lease, and no snapshots. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.each(cmd, s.one)
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d sealed, restored and right in every row; %d not sealed, nothing held and no snapshot left\n",
				&s.seeds, s.restored.Load(), s.undone.Load())
			return err
		},
	}
	s.flags(cmd, 200, 5*time.Minute)
	cmd.Flags().IntVar(&s.atOnce, "at-once", 4, "runs at the same time, each of a cluster of its own")
	return cmd
}

// holdSoak is a soak under way.
type holdSoak struct {
	seeds
	restored, undone atomic.Int64
}

// one makes one backup and notes how it ended.
func (s *holdSoak) one(ctx context.Context, seed int64, out, errs io.Writer) error {
	dir, err := os.MkdirTemp("", "tisnap-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	plan := &fault.Plan{}
	v := &victim{path: s.tisnap, seed: seed, plan: plan}
	r, err := round.Run(ctx, round.Config{
		Dir: dir, Seed: seed, Scale: soakScale, Faults: plan, Tisnap: v.program,
		PD: pdtest.Config{Members: 3, ElectionTimeout: 2 * time.Second, CoordinatorDelay: 200 * time.Millisecond},
	})
	what := strings.Join(v.what, "; ")
	switch {
	case err == nil:
		s.restored.Add(1)
		fmt.Fprintf(out, "seed %d: %s: ended with %d, sealed; %d rows restored right\n", seed, what, v.code, r.Rows)
		return nil
	case errors.Is(err, errUndone) && !errors.Is(err, errWrong):
		s.undone.Add(1)
		fmt.Fprintf(out, "seed %d: %s: ended with %d, not sealed; nothing held, no snapshot\n", seed, what, v.code)
		return nil
	}
	fmt.Fprintln(errs, v.output.String())
	return fmt.Errorf("%s: %w", what, err)
}

var (
	errUndone = errors.New("the backup was not sealed, and left nothing")
	errWrong  = errors.New("the backup left what it must not")
)
