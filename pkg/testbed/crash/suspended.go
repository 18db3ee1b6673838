package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Exit codes of the program.
const (
	exitConflict   = 6                          // it has lost its lock
	exitHeld       = 9                          // it could not see that the cluster is released
	exitTerminated = 128 + int(syscall.SIGTERM) // it was asked to stop, and nothing of it is left or held
)

// mayEnd are the exit codes with which a process may end that was suspended at the cell. One that was stopped first, and slept in an
// undo, may have finished that. Only a backup may report that the cluster is held: it slept for longer than it has for releasing it.
func (c Cell) mayEnd() []int {
	switch {
	case c.Position == SuspendedUndo && c.Run == Backup:
		return []int{exitConflict, exitTerminated, exitHeld}
	case c.Position == SuspendedUndo:
		return []int{exitConflict, exitTerminated}
	}
	return []int{exitConflict}
}

// sleeper is a process that is suspended, and continued later.
type sleeper struct {
	out   bytes.Buffer
	code  int
	err   error
	ended chan struct{}
	rouse func() // lets it continue
}

// startSleeper starts the command in a process of its own.
func (s *scene) startSleeper(ctx context.Context, program *Program, args []string) *sleeper {
	p := &sleeper{ended: make(chan struct{}), rouse: func() { program.Signal(syscall.SIGCONT) }}
	go func() {
		defer close(p.ended)
		p.code, p.err = program.Run(ctx, s.bed, commandLine(args), &p.out)
	}()
	return p
}

// wake continues the process and returns when it has ended.
func (p *sleeper) wake() {
	p.rouse()
	<-p.ended
}

// suspended stops the program at the cell until another process has taken its lock over and has finished its run. When
// it is continued it has to end as one that has lost its lock, without any further change.
func (s *scene) suspended(ctx context.Context, cell Cell, undisturbed result) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var args []string
	if cell.Position == SuspendedUndo {
		args = []string{"--grace-period", "1h"} // or it ends as it wakes, and undoes nothing more
	}
	p, t, end, err := s.asleep(ctx, cell, append(s.args(), args...))
	defer end(cancel)
	if err != nil {
		return err
	}
	// Only then does the other side get the call, and the lease of what it holds begins.
	if err := wait.For(ctx, stopTime); err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, source); err != nil {
		return err
	}
	if err := errors.Join(s.awaitOverdue(ctx), s.finishedByAnother(ctx)); err != nil {
		return fmt.Errorf("the second process: %w", err)
	}
	late, err := s.changesNothing(ctx, p, cell, t.Beside())
	if err != nil {
		return err
	}
	if late { // what it asked for as it woke is in no manifest, and has to be found by its tags
		if err := s.gc(ctx); err != nil {
			return err
		}
	}
	if err := s.makes(ctx, undisturbed); err != nil {
		return err
	}
	return s.verifyResult(ctx)
}

// asleep starts the command, and returns once it is suspended at the cell. end stops it.
func (s *scene) asleep(
	ctx context.Context, cell Cell, args []string,
) (p *sleeper, t *Trap, end func(cancel context.CancelFunc), err error) {
	program := &Program{Path: s.program.Path}
	t = NewTrap(cell, program.Signal)
	s.faults.Watch(t.Watch)
	defer s.faults.Watch(nil)
	p = s.startSleeper(ctx, program, args)
	end = func(cancel context.CancelFunc) {
		cancel()
		p.wake()
		fmt.Fprintf(&s.out, "the process that was suspended:\n%s(ended with %d)\n", p.out.String(), p.code)
	}
	select {
	case <-t.asleep:
	case <-p.ended:
		err = errors.Join(fmt.Errorf("the program was not suspended: it ended with %d", p.code), p.err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return p, t, end, err
}

// awaitOverdue waits until the lock shows that its owner does not renew it: until then another process is refused at once.
func (s *scene) awaitOverdue(ctx context.Context) error {
	return wait.Until(ctx, wait.Every(100*time.Millisecond), func() (bool, error) {
		lock, _, err := runlock.Read(ctx, s.store, s.locked())
		return err != nil || time.Since(lock.RenewedAt).Seconds() > lock.RenewSeconds, err
	})
}

// finishedByAnother is the same command in another process. A record of the first that was under way may come in between:
// then it is refused with the hint to run the command again.
func (s *scene) finishedByAnother(ctx context.Context) error {
	code, err := s.tisnap(ctx, s.args()...)
	if err == nil && code == exitConflict {
		return s.succeeds(ctx, s.args()...)
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d", code)
	}
	return err
}

// changesNothing continues the process, and proves that it has sent nothing that changes anything, but what was on its way
// when it was suspended (added); late reports whether calls of the cell's own kind were. beside are the steps that were
// under way beside the cell's own.
func (s *scene) changesNothing(ctx context.Context, p *sleeper, cell Cell, beside []string) (late bool, err error) {
	before, err := s.records(ctx)
	if err != nil {
		return false, err
	}
	stored, err := s.stored(ctx)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var points []string
	s.faults.Watch(func(point string) *fault.Rule {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
		return nil
	})
	p.wake()
	s.faults.Watch(nil)
	after, err := s.records(ctx)
	now, listErr := s.stored(ctx)
	mu.Lock()
	defer mu.Unlock()
	late = slices.ContainsFunc(points, func(point string) bool { return anyStore(point) == cell.Point })
	if listErr == nil && slices.Equal(stored, now) { // it took a record back that it had put behind those of a compacted journal
		points = slices.DeleteFunc(points, func(point string) bool { return point == "s3.DeleteObject" })
	}
	changed := added(points, cell, len(beside))
	switch {
	case err != nil:
		return late, err
	case !slices.Contains(cell.mayEnd(), p.code):
		return late, errors.Join(fmt.Errorf("the process that was suspended ended with %d", p.code), p.err)
	case len(changed) > 0:
		return late, fmt.Errorf("the process that was suspended, with %v under way beside, has changed something after it had lost its lock: %s",
			beside, strings.Join(changed, ", "))
	case after != before:
		return late, fmt.Errorf("the process that was suspended wrote to the journal: %d records, and %d before", after, before)
	}
	return late, nil
}

// added are the effects among the points that were not on their way when the process was suspended; nil if all were. A
// goroutine asks the lock right before it sends a call, so it may have been stopped in between: of the cell's call those of
// one fan-out, and of each step beside it calls of one kind. The lock itself is written conditionally.
func added(points []string, cell Cell, beside int) []string {
	var kinds []string
	for _, point := range points {
		kind := anyStore(point)
		if effects().MatchString(point) && point != "object.lock" && kind != cell.Point && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) <= beside {
		return nil
	}
	return kinds
}

// stored lists the objects of the storage, without journals that do not matter.
func (s *scene) stored(ctx context.Context) ([]string, error) {
	objects, err := s.store.List(ctx, "")
	keys := make([]string, 0, len(objects))
	for _, o := range objects {
		if s.only == "" || !strings.HasPrefix(o.Key, manifest.RunsPrefix) || strings.HasPrefix(o.Key, manifest.RunPrefix(s.only)) {
			keys = append(keys, o.Key)
		}
	}
	return keys, err
}

// records counts those of the journals that matter.
func (s *scene) records(ctx context.Context) (int, error) {
	all, err := runs.List(ctx, s.store)
	n := 0
	for _, r := range all {
		if r.History != nil && (s.only == "" || r.ID == s.only) {
			n += len(r.History.Records)
		}
	}
	return n, err
}
