package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Config is a matrix. Tisnap is required.
type Config struct {
	Tisnap string     // path of the shipped program
	Runs   []Run      // nil is all of them
	Only   string     // the one cell of this name; "" for all
	At     []Position // only cells of these; nil is those that kill
	Then   Then       // what follows each kill; with another than Again the runs are those that it can follow
	Sample int        // so many cells of each run, spread over all; 0 is all
	Seed   int64      // at which the sample begins
	Worlds int        // testbeds at the same time; 0 is 4
	// Deadline bounds one cell; 0 is 4 min.
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

// Play kills each run at each of its cells, on several testbeds at the same time. The outcomes are in the order of the
// cells. The error lists what could not be tried.
func Play(ctx context.Context, cfg Config) ([]Outcome, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = 4 * time.Minute
	}
	if cfg.Report == nil {
		cfg.Report = func(Outcome) {}
	}
	if cfg.Runs == nil {
		cfg.Runs = Runs()
	}
	if cfg.Then != Again {
		cfg.Runs = slices.DeleteFunc(slices.Clone(cfg.Runs), func(r Run) bool { return !r.removable() })
	}
	if cfg.At == nil {
		cfg.At = Killed()
	}
	if cfg.Worlds <= 0 {
		cfg.Worlds = 4
	}
	dir, err := os.MkdirTemp("", "tisnap-crash-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // kubeconfigs of servers that are gone
	pool := newPool(cfg.Tisnap, dir, cfg.Worlds)
	defer pool.close()
	ofRun, made := make([][]Cell, len(cfg.Runs)), make([]result, len(cfg.Runs))
	err = parallel.Each(ctx, cfg.Worlds, cfg.Runs, func(ctx context.Context, i int, run Run) error {
		all, result, err := pool.undisturbed(ctx, cfg.Deadline, run)
		all = slices.DeleteFunc(all, func(c Cell) bool { return !slices.Contains(cfg.At, c.Position) })
		for c := range all {
			all[c].Then = cfg.Then
		}
		ofRun[i], made[i] = Sample(all, cfg.Sample, cfg.Seed), result
		return err
	})
	if err != nil {
		return nil, err
	}
	cells := slices.DeleteFunc(slices.Concat(ofRun...), func(c Cell) bool { return cfg.Only != "" && cfg.Only != c.String() })
	out := make([]Outcome, len(cells))
	err = parallel.Each(ctx, cfg.Worlds, cells, func(ctx context.Context, i int, cell Cell) (err error) {
		if out[i], err = pool.try(ctx, cfg.Deadline, cell, made[slices.Index(cfg.Runs, cell.Run)]); err == nil {
			cfg.Report(out[i])
		}
		return err
	})
	return slices.DeleteFunc(out, func(o Outcome) bool { return o.Took == 0 }), err
}

// undisturbed runs without a kill, and makes the cells of what it saw.
func (w *world) undisturbed(ctx context.Context, run Run) ([]Cell, result, error) {
	s := w.scene(run)
	if err := s.prepare(ctx); err != nil {
		return nil, nil, err
	}
	defer s.runPods(ctx)()
	var mu sync.Mutex
	var points []string
	w.faults.Watch(func(point string) *fault.Rule {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
		return nil
	})
	err := s.succeeds(ctx, s.args()...)
	w.faults.Watch(nil)
	if err != nil {
		return nil, nil, err
	}
	made, err := s.result(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.verifyResult(ctx); err != nil {
		return nil, nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	all, err := Cells(run, run.steps(), points)
	return all, made, err
}

// try kills the program at the cell, runs it again, and proves that nothing is lost, leaked or held.
func (w *world) try(ctx context.Context, cell Cell, undisturbed result) error {
	s := w.scene(cell.Run)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer s.runPods(ctx)()
	if cell.Position == Suspended && s.run.inRepository() {
		return s.suspendedInRepository(ctx, cell, undisturbed)
	}
	if cell.Position == Suspended || cell.Position == SuspendedUndo {
		return s.suspended(ctx, cell, undisturbed)
	}
	t := NewTrap(cell, func(sig syscall.Signal) { w.program.Signal(sig) })
	w.faults.Watch(t.Watch)
	code, err := s.tisnap(ctx, s.args()...)
	w.faults.Watch(nil)
	switch {
	case err != nil:
		return err
	case !t.Hit():
		return fmt.Errorf("the program was not killed: it ended with %d", code)
	case code != -1:
		return fmt.Errorf("the program that was killed ended with %d", code)
	}
	if err := s.known(ctx); err != nil {
		return err
	}
	dead, err := s.journalOfDead(ctx)
	if err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, source); err != nil {
		return err
	}
	if err := s.locksEnd(ctx); err != nil {
		return err
	}
	if cell.Then != Again {
		if err := s.removed(ctx, cell.Then); err != nil {
			return err
		}
		dead = nil
	}
	if err := s.succeeds(ctx, s.args()...); err != nil {
		return fmt.Errorf("the same command again: %w", err)
	}
	if err := s.balanced(ctx); err != nil { // it leaves nothing for gc
		return err
	}
	if err := s.makes(ctx, undisturbed); err != nil {
		return err
	}
	if err := reportsAttempts(s.report, dead); err != nil {
		return err
	}
	if err := s.gc(ctx); err != nil {
		return err
	}
	return s.verifyResult(ctx)
}
