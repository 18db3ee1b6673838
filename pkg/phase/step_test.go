package phase_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The lock is asked at every try; what it refuses is not done.
func TestStep_LockLostBetweenTries_IsNotDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock, done := &fence{}, 0
		step := phase.Step{
			Phase: "p", Name: "s", Deadline: time.Minute, Retry: true,
			Do: func(context.Context, *phase.Scope) error {
				if done++; done == 2 {
					lock.lost = failure.Wrap(errLost, failure.Conflict, "check lock", "c")
				}
				return failure.New(failure.Limited, "do it", "", "busy")
			},
		}
		err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Fence: lock}).Run(t.Context(), []phase.Step{step})
		require.ErrorIs(t, err, errLost)
		require.Equal(t, 2, done)
	})
}

// Object storage is away for minutes in the middle of a long run: a step that may be late begins with a warning, one that
// may not waits, and nothing is undone.
func TestStep_JournalLate_BeginsWithAWarningOrWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		journal := &memory{}
		journal.refuse = func(phase.Record) error {
			if since := time.Since(start); since > time.Second && since < 5*time.Minute {
				return failure.New(failure.Limited, "write", "", "503")
			}
			return nil
		}
		began := map[string]time.Duration{}
		step := func(name string, takes time.Duration, mayBeLate bool) phase.Step {
			return phase.Step{
				Phase: "p", Name: name, Deadline: time.Hour, Record: phase.Recording{MayBeLate: mayBeLate},
				Do: func(ctx context.Context, _ *phase.Scope) error {
					began[name] = time.Since(start)
					return wait.For(ctx, takes)
				},
				Undo: phase.Undo{Do: func(context.Context, *phase.Scope) error { t.Error(name + " is undone"); return nil }},
			}
		}
		sink := &warnings{}
		err := phase.New(phase.Config{Run: "r", Journal: journal, JournalPatience: 10 * time.Minute, Sink: sink}).Run(t.Context(), []phase.Step{
			step("make", 2*time.Second, false), step("recover", time.Minute, true), step("serve", time.Minute, true), step("spend", time.Second, false),
		})
		require.NoError(t, err)
		require.Equal(t, 32*time.Second, began["recover"], "it waits for one try")
		require.Equal(t, 92*time.Second, began["serve"], "and is not waited for again")
		require.GreaterOrEqual(t, began["spend"], 5*time.Minute, "what cannot be found again waits")
		require.Len(t, sink.texts, 1)
		require.Contains(t, sink.texts[0], "503")
		require.Len(t, journal.records, 10, "nothing is missing in the end")
	})
}

// A journal that refuses for good still ends a run that cannot do without it.
func TestStep_JournalRefusesForGood_IsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		journal := &memory{refuse: func(phase.Record) error { return failure.New(failure.Denied, "write", "", "403") }}
		err := phase.New(phase.Config{Run: "r", Journal: journal, JournalPatience: 10 * time.Minute}).Run(t.Context(), []phase.Step{{
			Phase: "p", Name: "s", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error { t.Error("done"); return nil },
		}})
		require.Equal(t, failure.Denied, failure.KindOf(err))
	})
}

// warnings keeps what a run warned of.
type warnings struct{ texts []string }

func (w *warnings) Emit(e phase.Event) {
	if e.Type == phase.Warning {
		w.texts = append(w.texts, e.Message)
	}
}

// Checks before anything is changed wait for what passes, and not for their whole deadline.
func TestStep_Patience_EndsTheTriesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		step := phase.Step{
			Phase: "p", Name: "s", Deadline: time.Hour, Retry: true, Patience: time.Minute,
			Do: func(_ context.Context, s *phase.Scope) error {
				tries++
				s.Warn("warned once")
				return failure.New(failure.Limited, "ask pd", "", "no leader")
			},
		}
		warnings := &warnings{}
		err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Sink: warnings}).Run(t.Context(), []phase.Step{step})
		require.ErrorContains(t, err, "no leader")
		require.LessOrEqual(t, time.Since(start), time.Minute)
		require.Greater(t, tries, 5)
		require.Equal(t, []string{"warned once"}, warnings.texts)
	})
}

// A quota is Limited as a throttle is, and comes back at every try.
func TestStep_PermanentError_IsNotRetried(t *testing.T) {
	t.Parallel()
	tries := 0
	err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute, Retry: true,
		Do: func(context.Context, *phase.Scope) error {
			tries++
			return failure.New(failure.Limited, "check quota", "", "over it").Lasting()
		},
	}})
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.Equal(t, 1, tries)
}
