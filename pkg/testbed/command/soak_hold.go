package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/mishap"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/wait"
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
the program gets a signal. A backup that is sealed is restored, and every row is checked. One that is not leaves
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

// victim is the program under mishaps.
type victim struct {
	path string
	seed int64
	plan *fault.Plan
	bed  *testbed.Testbed

	what   []string
	killed bool
	code   int
	output syncBuffer
}

// program runs tisnap as it is; what goes wrong goes wrong in the backup.
func (v *victim) program(bed *testbed.Testbed) round.Tisnap {
	v.bed = bed
	return func(ctx context.Context, args []string, out io.Writer) (int, error) {
		if args[0] != "backup" {
			return v.run(ctx, args, out, nil)
		}
		return 0, v.backup(ctx, append(args, "--lease", soakLease.String(), "--max-hold", "8s", "--steady", "1s",
			"--hold-attempts", "2", "--timeout", "2m"))
	}
}

// backup runs the backup under mishaps and looks at what it left: nil if it is sealed.
func (v *victim) backup(ctx context.Context, args []string) error {
	c := v.bed.Nodes.Cluster(round.Source())
	process := make(chan *os.Process, 1)
	scene := &mishap.Scene{Bed: v.bed, Cluster: c, Plan: v.plan, Signal: func(sig syscall.Signal) {
		select {
		case p := <-process:
			_ = p.Signal(sig) // it may have ended by itself
		default:
		}
	}}
	drawn := mishap.Draw(v.seed, scene)
	for _, m := range drawn {
		v.what, v.killed = append(v.what, m.What), v.killed || m.Killed
	}
	if err := scene.Begin(ctx, drawn); err != nil {
		return err
	}
	code, err := v.run(ctx, args, nil, process)
	v.code = code
	if err != nil {
		return err
	}
	left := v.held(ctx, c)
	scene.End()
	if left != nil {
		return left
	}
	if v.sealed(ctx) {
		return nil
	}
	if code == 0 {
		return fmt.Errorf("%w: it ended with 0 and is not sealed", errWrong)
	}
	return errors.Join(v.swept(ctx), errUndone)
}

// held looks at the cluster at once, or, if the program was killed or said that it could not let go, after a lease.
func (v *victim) held(ctx context.Context, c *testbed.Cluster) error {
	const exitHeld = 9
	limit := time.Duration(0)
	if v.code < 0 || v.code == exitHeld {
		limit = soakLease + time.Second
	}
	if v.code == exitHeld && !strings.Contains(v.output.String(), "tisnap release tidb/prod") {
		return fmt.Errorf("%w: it does not say how to release the cluster", errWrong)
	}
	end := time.Now().Add(limit)
	for len(c.Held()) > 0 {
		if time.Now().After(end) {
			return fmt.Errorf("%w: held %s after the end: %v", errWrong, limit, c.Held())
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// sealed asks the program itself, when nothing goes wrong any more.
func (v *victim) sealed(ctx context.Context) bool {
	code, err := v.run(ctx, []string{"describe", round.BackupID, "--storage", round.Storage}, io.Discard, nil)
	return err == nil && code == 0
}

// swept requires that no snapshot is left; those of a run that was killed are gc's to delete.
func (v *victim) swept(ctx context.Context) error {
	if v.code < 0 { // its lock has not expired: a person says that it is dead
		if code, err := v.run(ctx, []string{"release", round.Source().String(), "--yes", "--force", "--storage", round.Storage}, nil, nil); err != nil || code != 0 {
			return fmt.Errorf("%w: release after a kill ended with %d: %w", errWrong, code, err)
		}
		if code, err := v.run(ctx, []string{"gc", "--yes", "--older-than", "0s", "--storage", round.Storage}, nil, nil); err != nil || code != 0 {
			return fmt.Errorf("%w: gc after a kill ended with %d: %w", errWrong, code, err)
		}
	}
	if left := v.bed.EC2.Snapshots(); len(left) > 0 {
		return fmt.Errorf("%w: %d snapshots", errWrong, len(left))
	}
	return nil
}

// run runs the program in a process of its own. One that a signal ended has a code below 0.
func (v *victim) run(ctx context.Context, args []string, out io.Writer, started chan<- *os.Process) (int, error) {
	if out == nil {
		out = &v.output
	}
	fmt.Fprintf(&v.output, "$ tisnap %s\n", join(args))
	cmd := exec.CommandContext(ctx, v.path, args...) //nolint:gosec // the flag says what to run
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), v.bed.Env()...)
	cmd.Stdout, cmd.Stderr = out, &v.output
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if started != nil {
		started <- cmd.Process
	}
	err := cmd.Wait()
	if cmd.ProcessState != nil {
		return cmd.ProcessState.ExitCode(), ctx.Err()
	}
	return 0, err
}

// syncBuffer is a buffer that several goroutines may write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
