package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// pool is worlds that are used one cell after another. One in which a cell failed is not used again: what it left would
// disturb the next.
type pool struct {
	tisnap, dir string
	made        atomic.Int64
	idle        chan *world // nil for one that is still to be made, or of any Operator
}

func newPool(tisnap, dir string, worlds int) *pool {
	p := &pool{tisnap: tisnap, dir: dir, idle: make(chan *world, worlds)}
	for range worlds {
		p.idle <- nil
	}
	return p
}

// close ends all worlds; none may be in use.
func (p *pool) close() {
	for range cap(p.idle) {
		if w := <-p.idle; w != nil {
			w.bed.Close()
		}
	}
}

// with calls f with a world of the Operator's clusters that no other test uses.
func (p *pool) with(ctx context.Context, operator int, f func(w *world) error) error {
	w := <-p.idle
	defer func() { p.idle <- w }()
	if w != nil && w.operator != operator {
		w.bed.Close()
		w = nil
	}
	if w == nil {
		dir := filepath.Join(p.dir, strconv.FormatInt(p.made.Add(1), 10))
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			w, err = newWorld(ctx, dir, &Program{Path: p.tisnap}, operator)
		}
		if err != nil {
			return fmt.Errorf("start a testbed: %w", err)
		}
	}
	w.out.Reset()
	err := f(w)
	if err != nil {
		w.bed.Close()
		w = nil
	}
	return err
}

// undisturbed makes the cells of a run, and returns what the run makes.
func (p *pool) undisturbed(ctx context.Context, limit time.Duration, run Run) ([]Cell, result, error) {
	var all []Cell
	var made result
	err := p.with(ctx, run.operator(), func(w *world) (err error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if all, made, err = w.undisturbed(ctx, run); err != nil {
			return fmt.Errorf("the %s without a kill: %w\n%s", run, err, w.out.String())
		}
		return nil
	})
	return all, made, err
}

// try tries one cell. The error is of a testbed that does not start.
func (p *pool) try(ctx context.Context, limit time.Duration, cell Cell, undisturbed result) (Outcome, error) {
	o := Outcome{Cell: cell}
	err := p.with(ctx, cell.Run.operator(), func(w *world) error {
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		o.Err = w.try(ctx, cell, undisturbed)
		o.Output, o.Took = w.out.String(), max(time.Since(start), 1)
		return o.Err
	})
	if o.Took > 0 {
		err = nil // the cell's own
	}
	return o, err
}
