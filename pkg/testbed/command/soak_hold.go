package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
	var runs, parallel int
	var seed int64
	var tisnap string
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "soak-hold",
		Short: "Make backups during which something goes wrong, at a random call",
		Long: `Make backups of a cluster under load during which something goes wrong, at a random call: a call is refused,
loses its answer, hangs or is slow; a store restarts or forgets; PD restarts, changes its leader or is tampered with;
a region merges or splits just before the leases; another tool holds the cluster; the program gets a signal. A backup that is sealed is restored, and every row is checked. One that is not leaves
nothing held within one lease, and no snapshots. A failure prints its seed and the program's output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			s := &holdSoak{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), tisnap: tisnap, deadline: deadline}
			return s.all(cmd.Context(), seed, runs, parallel)
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 200, "number of backups")
	f.IntVar(&parallel, "parallel", 4, "how many are made at the same time, each of a cluster of its own")
	f.Int64Var(&seed, "seed", 0, "seed of the first (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.DurationVar(&deadline, "deadline", 5*time.Minute, "how long one may take")
	return cmd
}

// holdSoak is a soak under way.
type holdSoak struct {
	tisnap   string
	deadline time.Duration

	mu               sync.Mutex
	out, errs        io.Writer
	restored, undone int
	failed           []error
}

func (s *holdSoak) all(ctx context.Context, first int64, runs, parallel int) error {
	begin := time.Now()
	seeds := make(chan int64)
	var workers sync.WaitGroup
	for range max(parallel, 1) {
		workers.Go(func() {
			for seed := range seeds {
				s.one(ctx, seed)
			}
		})
	}
	for i := range int64(runs) {
		seeds <- first + i
	}
	close(seeds)
	workers.Wait()
	fmt.Fprintf(s.out, "%d backups, seeds %d to %d, in %s: %d sealed, restored and right in every row; %d not sealed, nothing held and no snapshot left; %d wrong\n",
		runs, first, first+int64(runs)-1, time.Since(begin).Round(time.Second), s.restored, s.undone, len(s.failed))
	return errors.Join(s.failed...)
}

// one makes one backup and notes how it ended.
func (s *holdSoak) one(ctx context.Context, seed int64) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	dir, err := os.MkdirTemp("", "tisnap-soak-")
	if err != nil {
		s.note(seed, &victim{}, nil, err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	plan := &fault.Plan{}
	v := &victim{path: s.tisnap, seed: seed, plan: plan}
	r, err := round.Run(ctx, round.Config{
		Dir: dir, Seed: seed, Scale: soakScale, Faults: plan, Tisnap: v.program,
		PD: pdtest.Config{Members: 3, ElectionTimeout: 2 * time.Second, CoordinatorDelay: 200 * time.Millisecond},
	})
	s.note(seed, v, r, err)
}

func (s *holdSoak) note(seed int64, v *victim, r *round.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := strings.Join(v.what, "; ")
	switch {
	case err == nil:
		s.restored++
		fmt.Fprintf(s.out, "seed %d: %s: ended with %d, sealed; %d rows restored right\n", seed, what, v.code, r.Rows)
	case errors.Is(err, errUndone) && !errors.Is(err, errWrong):
		s.undone++
		fmt.Fprintf(s.out, "seed %d: %s: ended with %d, not sealed; nothing held, no snapshot\n", seed, what, v.code)
	default:
		s.failed = append(s.failed, fmt.Errorf("%s: %w\nrun it again with: make soak-hold N=1 SEED=%d", what, err, seed))
		fmt.Fprintf(s.errs, "seed %d: WRONG: %s: %v\n%s\n", seed, what, err, v.output.String())
	}
}

var (
	errUndone = errors.New("the backup was not sealed, and left nothing")
	errWrong  = errors.New("the backup left what it must not")
)
