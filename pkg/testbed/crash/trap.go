package crash

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Trap kills a program at a cell, once. It is safe for concurrent use.
type Trap struct {
	cell   Cell
	signal func(syscall.Signal)
	asleep chan struct{} // of Suspended and SuspendedUndo: closed once the process is

	mu      sync.Mutex
	begun   bool // the call counts from now on
	stopped bool // the program was asked to stop
	sprung  bool
	open    []string // steps that were begun and are not done
	locks   int      // that were to be taken
}

// NewTrap makes it. The signal function sends a signal to the program's process, and does nothing if that has ended.
func NewTrap(cell Cell, signal func(syscall.Signal)) *Trap {
	return &Trap{cell: cell, signal: signal, asleep: make(chan struct{})}
}

// Watch is the watcher of a plan of faults: it is asked at each call, and kills the program at that of the cell.
func (t *Trap) Watch(point string) *fault.Rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(point)
	if t.sprung {
		return nil
	}
	step := t.cell.Step
	switch t.cell.Position {
	case BeforeEffect:
		if t.cell.Point != "" {
			return t.kill(anyStore(point) == t.cell.Point, fault.Stall)
		}
		return t.kill(point == "journal.begin."+step, fault.After)
	case AfterEffect:
		t.begun = t.begun || t.cell.counts(point)
		return t.kill(t.begun && anyStore(point) == t.cell.Point, fault.After)
	case Suspended:
		t.begun = t.begun || t.cell.counts(point) || t.cell.since == secondLock && t.locks > 1
		return t.suspend(t.begun && (t.cell.Point == "" || anyStore(point) == t.cell.Point))
	case BeforeJournal:
		return t.kill(point == "journal.done."+step, fault.Stall)
	case InUndo, AfterUndo, SuspendedUndo:
		if !t.stopped && point == "journal.done."+step {
			t.stopped = true
			return &fault.Rule{Position: fault.Slow, Do: func() { t.signal(syscall.SIGTERM) }}
		}
		if rule := t.inUndo(point); rule != nil || !t.stopped || !strings.HasPrefix(point, "ec2.Describe") {
			return rule
		}
		// The steps beside or behind the cell's do not end before the process has noticed the signal: a backup that comes
		// to its seal keeps its name.
		return &fault.Rule{Position: fault.Slow, Delay: stopTime}
	}
	return nil
}

// inUndo springs in the undo of the step.
func (t *Trap) inUndo(point string) *fault.Rule {
	switch t.cell.Position {
	case InUndo:
		return t.kill(point == "journal.undo."+t.cell.Step, fault.After)
	case AfterUndo:
		return t.kill(point == "journal.undone."+t.cell.Step, fault.Stall)
	default:
		if t.cell.Point == "" {
			return t.suspend(point == "journal.undo."+t.cell.Step)
		}
		return t.suspend(t.stopped && anyStore(point) == t.cell.Point) // an undo does not wait for its record
	}
}

// follow notes which steps are under way.
func (t *Trap) follow(point string) {
	if step, ok := strings.CutPrefix(point, "journal.begin."); ok {
		t.open = append(t.open, step)
		if step == journal.StepLock {
			t.locks++
		}
	}
	if step, ok := strings.CutPrefix(point, "journal.done."); ok {
		t.open = slices.DeleteFunc(t.open, func(s string) bool { return s == step })
	}
}

// Beside lists the steps that are under way beside the cell's own.
func (t *Trap) Beside() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.open), func(s string) bool { return s == t.cell.Step })
}

// counts reports whether the cell's call counts from this point on.
func (c Cell) counts(point string) bool {
	switch c.since {
	case "":
		return true
	case anyStep:
		return strings.HasPrefix(point, "journal.begin.")
	}
	return point == "journal.begin."+c.since
}

func (t *Trap) kill(now bool, position fault.Position) *fault.Rule {
	if !now {
		return nil
	}
	t.sprung = true
	return &fault.Rule{Position: position, Do: func() { t.signal(syscall.SIGKILL) }}
}

// stopTime is how long the kernel has for stopping a process, before the answer to its call comes.
const stopTime = 200 * time.Millisecond

// suspend stops the process as `kill -STOP` does, in the middle of a call that is answered while it sleeps.
func (t *Trap) suspend(now bool) *fault.Rule {
	if !now {
		return nil
	}
	t.sprung = true
	return &fault.Rule{Position: fault.Slow, Delay: stopTime, Do: func() {
		t.signal(syscall.SIGSTOP)
		close(t.asleep)
	}}
}

// Hit reports whether the program came to the cell and was killed.
func (t *Trap) Hit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sprung
}
