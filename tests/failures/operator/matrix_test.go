package operator_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/crash"
	"github.com/tisnap/tisnap/tests/operator"
)

// whole is the variable that makes the matrix whole, as `make crash SUITE=br` does; without it a sample is played.
const whole = "BR_CRASH"

// half is one half of a restore, as a Job of the Operator runs it.
type half struct {
	run   crash.Run
	steps []phase.Outline
	begin func(p *place) func(context.Context, cluster.Name) (*operator.Run, *operator.Pod, error)
}

// before reports whether a cell is of a step that comes before another one.
func (h half) before(cell crash.Cell, step string) bool {
	at := func(name string) int {
		return slices.IndexFunc(h.steps, func(s phase.Outline) bool { return s.Name == name })
	}
	return at(cell.Step) < at(step)
}

// halves are both, in their order.
func halves() []half {
	volumes, data := restore.OutlineHalves()
	return []half{
		{"br restore volumes", volumes, func(p *place) func(context.Context, cluster.Name) (*operator.Run, *operator.Pod, error) {
			return p.BeginRestoreVolumes
		}},
		{"br restore data", data, func(p *place) func(context.Context, cluster.Name) (*operator.Run, *operator.Pod, error) {
			return p.BeginRestoreData
		}},
	}
}

// watched collects the points of the calls that f makes.
func (w *world) watched(f func()) []string {
	var mu sync.Mutex
	var points []string
	w.faults.Watch(func(point string) *fault.Rule {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
		return nil
	})
	f()
	w.faults.Watch(nil)
	mu.Lock()
	defer mu.Unlock()
	return points
}

// undisturbed restores without a kill, and makes the cells of each half of what it saw.
func (w *world) undisturbed(t *testing.T) [][]crash.Cell {
	t.Helper()
	w.newTarget(t)
	var out [][]crash.Cell
	for i, step := range []func(context.Context, cluster.Name) (*operator.Run, error){w.RestoreVolumes, w.RestoreData} {
		h := halves()[i]
		points := w.watched(func() {
			_, err := step(within(t), w.target)
			require.NoError(t, err)
		})
		cells, err := crash.Cells(h.run, h.steps, points)
		require.NoError(t, err)
		out = append(out, slices.DeleteFunc(cells, func(c crash.Cell) bool { return !slices.Contains(crash.Killed(), c.Position) }))
	}
	require.NoError(t, w.Finish(within(t), w.target))
	w.requireRestored(t, false)
	return out
}

// Each half of a restore is killed at each of its steps, in each position: before the effect, before the answer of each kind of
// call that changes something, before the record, in the undo and after it. Then the Operator's next Job runs the same command
// line: the chain ends with every row of the backup ts, nothing is held, and after a gc nothing is left over.
// Catalogue: H1.
func TestRestoreKilledAtEachStep_NextJobEndsWithEveryRow(t *testing.T) {
	t.Parallel()
	sample, worlds := 2, 1
	if os.Getenv(whole) != "" {
		sample, worlds = 0, 3
	}
	idle := make(chan *world, worlds)
	for range worlds {
		idle <- newWorld(t)
	}
	w := <-idle
	cells := w.undisturbed(t)
	idle <- w
	for i, h := range halves() {
		for _, cell := range crash.Sample(cells[i], sample, 3) {
			t.Run(cell.String(), func(t *testing.T) {
				t.Parallel()
				w := <-idle
				defer func() { idle <- w }()
				w.try(t, h, cell)
			})
		}
	}
}

// try kills a half of a new restore at the cell, and lets the Operator finish it.
func (w *world) try(t *testing.T, h half, cell crash.Cell) {
	t.Helper()
	w.newTarget(t)
	ofVolumes := h.run == halves()[0].run
	if !ofVolumes {
		_, err := w.RestoreVolumes(within(t), w.target)
		require.NoError(t, err)
	}
	w.killedAt(t, h, cell)
	w.expireLocks(t)
	if ofVolumes {
		_, err := w.RestoreVolumes(within(t), w.target)
		require.NoError(t, err)
	}
	run, err := w.RestoreData(within(t), w.target)
	require.NoError(t, err)
	require.Equal(t, uint64(w.ts), run.ResolvedTS("EBS restore success"))
	require.NoError(t, w.Finish(within(t), w.target))
	w.requireRestored(t, ofVolumes && !h.before(cell, journal.StepHandOver))
}
