package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/prune"
)

const (
	// besides is how many prunes run beside an archive.
	besides = 2
	// pruneTakes is about how long a prune takes, most of which is the passphrase.
	pruneTakes = 3 * time.Second
)

// pruneArgs leave nothing out as too young.
func (s *scene) pruneArgs() []string { return s.inRepo("prune", "--yes", "--min-age", "0s") }

// pruneKilled prunes the repository in a process of its own, which is killed at a random instant if it still runs.
func (s *scene) pruneKilled(ctx context.Context, after time.Duration) error {
	var out bytes.Buffer
	program := &Program{Path: s.program.Path}
	timer := time.AfterFunc(after, func() { program.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	code, err := program.Run(ctx, s.bed, commandLine(s.pruneArgs()), &out)
	if err == nil && code != 0 && code != -1 {
		err = fmt.Errorf("a prune ended with %d:\n%s", code, out.String())
	}
	return err
}

// prunesBeside prunes the repository while another process uses it. done waits for the prunes.
func (s *scene) prunesBeside(ctx context.Context, rng *rand.Rand) (done func() error) {
	var after []time.Duration
	for range besides {
		after = append(after, time.Duration(rng.Int64N(int64(pruneTakes))))
	}
	ended := make(chan error, 1)
	go func() {
		for _, instant := range after {
			if err := s.pruneKilled(ctx, instant); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return func() error { return <-ended }
}

// verifyPruned archives the backup once more, forgets the first archive, and prunes: in a process that is killed at a
// random instant, and in two that are not. Then nothing is left that the archive does not need, and it is whole.
func (s *scene) verifyPruned(ctx context.Context, rng *rand.Rand) error {
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	ids, err := r.Archives(ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		append(s.args(), "--run-id", fmt.Sprintf("again-%d", s.n), "--base", "none"), s.inRepo("forget", ids[0], "--yes"),
	} {
		if err := s.succeeds(ctx, args...); err != nil {
			return err
		}
	}
	if err := s.pruneKilled(ctx, time.Duration(rng.Int64N(int64(pruneTakes)))); err != nil {
		return err
	}
	for range 2 {
		if err := s.succeeds(ctx, s.pruneArgs()...); err != nil {
			return err
		}
	}
	report, err := prune.Run(ctx, r, prune.Options{DryRun: true, MinAge: -24 * time.Hour, MaxUnused: 1})
	if err != nil {
		return err
	}
	if report.Garbage != (prune.Amount{}) || report.Archives != 1 {
		return fmt.Errorf("after two prunes there are %d archives and garbage: %+v", report.Archives, report.Garbage)
	}
	return s.verifyArchived(ctx)
}
