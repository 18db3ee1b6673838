package phase_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/phase"
)

// fence is a lock whose loss is the test's.
type fence struct {
	fenced.None
	lost, unsure error
	checks       int
}

func (f *fence) Check(context.Context) error   { f.checks++; return f.lost }
func (f *fence) Confirm(context.Context) error { return f.lost }
func (f *fence) Current() error                { return errors.Join(f.unsure, f.lost) }

var errLost = errors.New("the lock is lost")

// A process that is awake makes no request before each call. One that was suspended asks, and the answer counts.
func TestFence_CallOfAStep_AsksOnlyIfItMayBeLost(t *testing.T) {
	t.Parallel()
	lock := &fence{}
	err := phase.New(phase.Config{Run: "r", Journal: &memory{}, Fence: lock}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute,
		Do: func(ctx context.Context, _ *phase.Scope) error {
			begun := lock.checks
			require.NoError(t, fenced.Check(ctx))
			require.Equal(t, begun, lock.checks, "the lock is not asked")
			lock.unsure = errors.New("it was not renewed for long")
			require.NoError(t, fenced.Check(ctx))
			require.Equal(t, begun+1, lock.checks)
			return nil
		},
	}})
	require.NoError(t, err)
}

// The last renewal of a lock that a person broke does not count where each call reads it.
func TestFence_StepThatReadsTheLock_AsksBeforeEachCall(t *testing.T) {
	t.Parallel()
	lock := &fence{}
	err := phase.New(phase.Config{Run: "r", Journal: &memory{}, Fence: lock}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute, ReadsLock: true,
		Do: func(ctx context.Context, _ *phase.Scope) error {
			for range 2 {
				begun := lock.checks
				require.NoError(t, fenced.Check(ctx))
				require.Equal(t, begun+1, lock.checks)
			}
			return nil
		},
	}})
	require.NoError(t, err)
}

// A lock that goes while a step is at work stops its next call, and the undo of what it made is not begun: it is another's by now.
func TestFence_LostDuringDo_StopsItsCallsAndTheUndo(t *testing.T) {
	t.Parallel()
	lock, sink, journal := &fence{}, &warnings{}, &memory{}
	err := phase.New(phase.Config{Run: "r", Journal: journal, Fence: lock, Sink: sink}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute, Undo: phase.Undo{Kept: "what was made is kept", Do: func(context.Context, *phase.Scope) error { t.Error("it is undone"); return nil }},
		Do: func(ctx context.Context, _ *phase.Scope) error {
			require.NoError(t, fenced.Check(ctx))
			lock.lost = errLost
			return fenced.Check(ctx)
		},
	}})
	require.ErrorIs(t, err, errLost)
	require.ErrorContains(t, err, "undo s: the lock is lost")
	require.Equal(t, []string{"what was made is kept"}, sink.texts)
	require.Equal(t, phase.RecordUndoFail, journal.records[len(journal.records)-2].Type, "it is not called undone")
}

// A process that is suspended inside of an undo deletes nothing more once it wakes.
func TestFence_LostDuringUndo_StopsItsCalls(t *testing.T) {
	t.Parallel()
	lock, sink, deleted := &fence{}, &warnings{}, 0
	err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Fence: lock, Sink: sink}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute, Undo: phase.Undo{Kept: "the rest is kept", Do: func(ctx context.Context, _ *phase.Scope) error {
			for range 3 {
				if err := fenced.Check(ctx); err != nil {
					return err
				}
				deleted++
				lock.lost = errLost
			}
			return nil
		}},
		Do: func(context.Context, *phase.Scope) error { return errors.New("no room") },
	}})
	require.ErrorIs(t, err, errLost)
	require.Equal(t, 1, deleted)
	require.Equal(t, []string{"the rest is kept"}, sink.texts)
}

// A step that releases a live cluster never waits for the lock, nor does any other that states its reason.
func TestFence_StepsWithAReason_DoNotAsk(t *testing.T) {
	t.Parallel()
	lock, undone := &fence{lost: errLost}, false
	err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Fence: lock}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "read", Deadline: time.Minute, ReadOnly: true,
		Do: func(ctx context.Context, _ *phase.Scope) error { return fenced.Check(ctx) },
	}, {
		Phase: "p", Name: "hold", Deadline: time.Minute, Unfenced: "it is the lock", Undo: phase.Undo{Unfenced: "it releases it", Do: func(ctx context.Context, _ *phase.Scope) error { undone = true; return fenced.Check(ctx) }},
		Do: func(ctx context.Context, _ *phase.Scope) error { return fenced.Check(ctx) },
	}, {
		Phase: "p", Name: "write", Deadline: time.Minute,
		Do: func(context.Context, *phase.Scope) error { t.Error("it is done"); return nil },
	}})
	require.EqualError(t, err, "the lock is lost", "the undo has no error")
	require.True(t, undone)
	require.Equal(t, 1, lock.checks)
}

// An adoption is fenced as a step is: whoever took the lock meanwhile continues the run.
func TestFence_LostBeforeTheAdoption_AdoptsNothing(t *testing.T) {
	t.Parallel()
	journal := &memory{}
	type decide = func(context.Context, *phase.History) (string, error)
	run := func(lock *fence, over decide, admitted func(), adopt func(context.Context) error) error {
		steps := []phase.Step{
			{Phase: "p", Name: "lock", Deadline: time.Minute, Unfenced: "it is the lock", Resume: phase.Resumption{Repeat: true}, Do: func(context.Context, *phase.Scope) error { admitted(); return nil }},
			{Phase: "p", Name: "make", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error { panic("the process dies") }},
		}
		return phase.New(phase.Config{Run: "r", Journal: journal, Fence: lock, Resume: &phase.Resume{
			Admit: "lock", Same: func(*phase.History) error { return nil }, Epoch: func() int64 { return 1 },
			Adopt:     func(ctx context.Context, _ *phase.Scope, _ *phase.History) error { return adopt(ctx) },
			StartOver: over,
		}}).Run(t.Context(), steps)
	}
	require.Error(t, run(&fence{}, nil, func() {}, nil))
	for i, r := range journal.records { // its process died there
		if r.Type == phase.RecordFailed {
			journal.records = journal.records[:i]
			break
		}
	}
	over := func(context.Context, *phase.History) (string, error) { return "", nil }
	lock := &fence{}
	err := run(lock, over, func() { lock.lost = errLost }, func(context.Context) error { t.Error("it is adopted"); return nil })
	require.ErrorIs(t, err, errLost)
	lock = &fence{}
	err = run(lock, over, func() {}, func(ctx context.Context) error {
		lock.lost = errLost
		return fenced.Check(ctx)
	})
	require.ErrorIs(t, err, errLost, "and each call of it asks")
	lock = &fence{}
	adopts := func(context.Context) error { return nil }
	err = run(lock, func(ctx context.Context, _ *phase.History) (string, error) {
		lock.lost = errLost
		require.ErrorIs(t, fenced.Check(ctx), errLost, "and so do those of what decides whether to start over")
		return "", errLost
	}, func() {}, adopts)
	require.ErrorIs(t, err, errLost)
}
