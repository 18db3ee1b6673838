package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

// seeds is what all soaks have in common: runs with one seed after the other.
type seeds struct {
	tisnap   string
	runs     int
	first    int64
	atOnce   int // 0: one
	deadline time.Duration

	begin time.Time
}

// flags adds the flags that all soaks have.
func (s *seeds) flags(cmd *cobra.Command, runs int, deadline time.Duration) {
	f := cmd.Flags()
	f.IntVar(&s.runs, "runs", runs, "number of runs")
	f.Int64Var(&s.first, "seed", 0, "seed of the first run (default: the clock's)")
	f.StringVar(&s.tisnap, "tisnap", beside(), "the program under test")
	f.DurationVar(&s.deadline, "deadline", deadline, "how long one run may take")
}

// each makes the runs. One that fails is printed with the command that repeats it, and does not stop the others, which
// may find something else; then the whole fails. What the runs print does not mix, and nothing of AWS's settings in
// the environment reaches them.
func (s *seeds) each(cmd *cobra.Command, one func(ctx context.Context, seed int64, out, errs io.Writer) error) error {
	if err := awsenv.Isolate(); err != nil {
		return err
	}
	if s.runs < 1 {
		return fmt.Errorf("--runs is %d: nothing was run", s.runs)
	}
	if s.first == 0 {
		s.first = time.Now().UnixNano() % 1_000_000
	}
	s.begin = time.Now()
	var mu sync.Mutex
	out, errs := &lockedWriter{mu: &mu, w: cmd.OutOrStdout()}, &lockedWriter{mu: &mu, w: cmd.ErrOrStderr()}
	failed := 0
	err := parallel.Each(cmd.Context(), max(s.atOnce, 1), make([]struct{}, s.runs), func(ctx context.Context, i int, _ struct{}) error {
		ctx, cancel := context.WithTimeout(ctx, s.deadline)
		defer cancel()
		seed := s.first + int64(i)
		if err := one(ctx, seed, out, errs); err != nil {
			if cmd.Context().Err() != nil {
				return nil // it was interrupted, which the soak reports as a whole
			}
			fmt.Fprintf(errs, "FAILED: %v\nrun it again with: make %s N=1 SEED=%d\n", err, target(cmd.Name()), seed)
			mu.Lock()
			failed++
			mu.Unlock()
		}
		return nil
	})
	if err == nil {
		err = cmd.Context().Err()
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d runs failed", failed, s.runs)
	}
	return err
}

// target is the make target of a soak, and its SUITE: "soak SUITE=ebs" of soak-ebs.
func target(command string) string {
	if suite, ok := strings.CutPrefix(command, "soak-"); ok {
		return "soak SUITE=" + suite
	}
	return command
}

// String is for the last line.
func (s *seeds) String() string {
	return fmt.Sprintf("%d runs, seeds %d to %d, in %s", s.runs, s.first, s.first+int64(s.runs)-1, time.Since(s.begin).Round(time.Second))
}

// lockedWriter writes one text at a time.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
