package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Config is a matrix. Tisnap is required.
type Config struct {
	Tisnap string // path of the shipped program
	Runs   []Run  // nil is all of them
	Only   string // the one cell of this name; "" for all
	Sample int    // so many cells of each run, spread over all; 0 is all
	Seed   int64  // at which the sample begins
	// Deadline bounds one cell; 0 is 2 min.
	Deadline time.Duration
	// Report is called for each cell when it has ended, from several goroutines; nil is not.
	Report func(Outcome)
}

// Outcome is what became of a cell.
type Outcome struct {
	Cell   Cell
	Err    error
	Output string // of the program, all of its processes
	Took   time.Duration
}

// Play kills each run at each of its cells, one run after the other on a testbed of its own, the runs at the same
// time. The outcomes are in the order of the cells. The error is of what could not be tried at all.
func Play(ctx context.Context, cfg Config) ([]Outcome, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = 2 * time.Minute
	}
	if cfg.Report == nil {
		cfg.Report = func(Outcome) {}
	}
	if cfg.Runs == nil {
		cfg.Runs = []Run{Backup, Restore}
	}
	outcomes, errs := make([][]Outcome, len(cfg.Runs)), make([]error, len(cfg.Runs))
	var wg sync.WaitGroup
	for i, run := range cfg.Runs {
		wg.Go(func() { outcomes[i], errs[i] = play(ctx, cfg, run) })
	}
	wg.Wait()
	var all []Outcome
	for _, o := range outcomes {
		all = append(all, o...)
	}
	return all, errors.Join(errs...)
}

// play tries all cells of one run.
func play(ctx context.Context, cfg Config, run Run) ([]Outcome, error) {
	dir, err := os.MkdirTemp("", "tisnap-crash-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	w, err := newWorld(ctx, dir, &Program{Path: cfg.Tisnap})
	if err != nil {
		return nil, err
	}
	defer w.bed.Close()
	all, err := w.undisturbed(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("the run without a kill: %w\n%s", err, w.out.String())
	}
	var out []Outcome
	for _, cell := range sample(all, cfg.Sample, cfg.Seed) {
		if cfg.Only != "" && cfg.Only != cell.String() {
			continue
		}
		w.out.Reset()
		start := time.Now()
		err := w.bounded(ctx, cfg.Deadline, cell)
		o := Outcome{Cell: cell, Err: err, Output: w.out.String(), Took: time.Since(start)}
		out = append(out, o)
		cfg.Report(o)
		if err != nil && ctx.Err() == nil { // what it left would disturb the next
			w.bed.Close()
			again, err := newWorld(ctx, dir, w.program)
			if err != nil {
				return out, err
			}
			w = again
		}
	}
	return out, ctx.Err()
}

// undisturbed runs without a kill, and makes the cells of what it saw.
func (w *world) undisturbed(ctx context.Context, run Run) ([]Cell, error) {
	var mu sync.Mutex
	var points []string
	w.faults.Watch(func(point string) *fault.Rule {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
		return nil
	})
	s := w.scene(run)
	err := s.succeeds(ctx, s.args()...)
	w.faults.Watch(nil)
	if err != nil {
		return nil, err
	}
	if err := s.verifyResult(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return cells(run, run.steps(), points)
}

func (w *world) bounded(ctx context.Context, limit time.Duration, cell Cell) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return w.try(ctx, cell)
}

// try kills the program at the cell, runs it again, and proves that nothing is lost, leaked or held.
func (w *world) try(ctx context.Context, cell Cell) error {
	s := w.scene(cell.Run)
	t := &trap{cell: cell, signal: func(sig syscall.Signal) { w.program.Signal(sig) }}
	w.faults.Watch(t.watch)
	code, err := s.tisnap(ctx, s.args()...)
	w.faults.Watch(nil)
	switch {
	case err != nil:
		return err
	case !t.hit():
		return fmt.Errorf("the program was not killed: it ended with %d", code)
	case code != -1:
		return fmt.Errorf("the program that was killed ended with %d", code)
	}
	if err := s.letsGo(ctx, source); err != nil {
		return err
	}
	if err := s.expire(ctx, s.locked()); err != nil {
		return err
	}
	if err := s.again(ctx, cell.Position); err != nil {
		return fmt.Errorf("the second run: %w", err)
	}
	if err := s.succeeds(ctx, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100"); err != nil {
		return err
	}
	return s.verifyResult(ctx)
}
