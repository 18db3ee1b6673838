package phase_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a journal that can be slow or refuse.
type memory struct {
	mu      sync.Mutex
	records []phase.Record
	delay   time.Duration
	refuse  func(phase.Record) error
}

func (m *memory) Append(ctx context.Context, r phase.Record) error {
	if m.delay > 0 {
		if err := wait.For(ctx, m.delay); err != nil {
			return err
		}
	}
	if m.refuse != nil {
		if err := m.refuse(r); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r)
	return nil
}

func (m *memory) Records(context.Context) ([]phase.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]phase.Record(nil), m.records...), nil
}

func (m *memory) lines() []string {
	var out []string
	for _, r := range m.records {
		out = append(out, string(r.Type)+" "+r.Step)
	}
	return out
}

// trace collects what steps did, in order.
type trace struct{ did []string }

func (t *trace) step(name string, err error) phase.Step {
	return phase.Step{
		Phase: name, Name: name, Deadline: time.Minute,
		Do:   func(context.Context, *phase.Scope) error { t.did = append(t.did, name); return err },
		Undo: phase.Undo{Do: func(context.Context, *phase.Scope) error { t.did = append(t.did, "undo "+name); return nil }},
	}
}

func TestRun_AllStepsSucceed_JournalsBeginBeforeAndDoneAfter(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	e := phase.New(phase.Config{Run: "r1", Journal: j})
	require.NoError(t, e.Run(t.Context(), []phase.Step{tr.step("a", nil), tr.step("b", nil)}))
	assert.Equal(t, []string{"a", "b"}, tr.did)
	assert.Equal(t, []string{"run ", "begin a", "done a", "begin b", "done b", "end "}, j.lines())
	assert.Len(t, e.Timings(), 2)
}

func TestRun_LaterStepFails_UndoesInReverseWithUndoFirstBeforeAll(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	hold := tr.step("hold", nil)
	hold.Undo.First = true
	err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{
		tr.step("lock", nil), hold, tr.step("cut", errors.New("no")),
	})
	require.ErrorContains(t, err, "no")
	assert.Equal(t, []string{"lock", "hold", "cut", "undo hold", "undo cut", "undo lock"}, tr.did)
}

func TestRun_StepEndsAnother_ThatOneIsNotUndone(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	release := tr.step("release", nil)
	release.Order.Ends, release.Undo.Do = []string{"hold"}, nil
	err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{
		tr.step("hold", nil), release, tr.step("wait", errors.New("stuck")),
	})
	require.Error(t, err)
	assert.Equal(t, []string{"hold", "release", "wait", "undo wait"}, tr.did)
}

func TestRun_UndoFails_ErrorIsJoinedAndKeepsItsKind(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	hold := tr.step("hold", nil)
	hold.Undo.Do = func(context.Context, *phase.Scope) error {
		return failure.New(failure.Held, "release", "prod", "store 3 does not answer").WithHint("run tisnap release prod")
	}
	err := phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), []phase.Step{hold, tr.step("cut", errors.New("broken"))})
	require.ErrorContains(t, err, "broken")
	require.ErrorContains(t, err, "store 3 does not answer")
	assert.Equal(t, failure.Held, failure.KindOf(err))
}

func TestRun_ContextCancelledDuringStep_UndoStillRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	undone := errors.New("not called")
	err := phase.New(phase.Config{Journal: &memory{}}).Run(ctx, []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute,
		Do: func(ctx context.Context, _ *phase.Scope) error { cancel(); <-ctx.Done(); return ctx.Err() },
		Undo: phase.Undo{Do: func(ctx context.Context, _ *phase.Scope) error {
			undone = ctx.Err()
			return nil
		}},
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, undone, "undo must have a live context")
}

func TestRun_StepExceedsDeadline_ErrorNamesStepAndDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), []phase.Step{{
			Phase: "p", Name: "wait for stores", Deadline: 3 * time.Minute,
			Do: func(ctx context.Context, _ *phase.Scope) error { <-ctx.Done(); return ctx.Err() },
		}})
		require.ErrorContains(t, err, "wait for stores: not done within 3m0s")
		assert.Equal(t, failure.Limited, failure.KindOf(err))
	})
}

func TestRun_BeginCannotBeJournalled_StepDoesNotStart(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	j := &memory{refuse: func(r phase.Record) error {
		if r.Type == phase.RecordBegin && r.Step == "b" {
			return failure.New(failure.Conflict, "append", "", "someone else writes")
		}
		return nil
	}}
	err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{tr.step("a", nil), tr.step("b", nil)})
	assert.True(t, failure.Is(err, failure.Conflict))
	assert.Equal(t, []string{"a", "undo a"}, tr.did)
}

func TestRun_NoWaitStep_BeginsWhileJournalIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &memory{delay: 5 * time.Second}
		var cutDone, released time.Time
		err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{
			{Phase: "cut", Name: "cut", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error {
				cutDone = time.Now()
				return nil
			}},
			{Phase: "release", Name: "release", Deadline: time.Minute, Record: phase.Recording{NoWait: true}, Order: phase.Order{Ends: []string{"cut"}},
				Do: func(context.Context, *phase.Scope) error { released = time.Now(); return nil }},
		})
		require.NoError(t, err)
		assert.Zero(t, released.Sub(cutDone), "releasing must not wait for object storage")
		assert.Equal(t, []string{"run ", "begin cut", "done cut", "begin release", "done release", "end "}, j.lines())
	})
}

func TestRun_JournalHasDoneSteps_ResumesWithTheirState(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	state := map[string]string{}
	steps := func(fail error) []phase.Step {
		first := tr.step("first", nil)
		first.Undo.Do = nil
		first.Resume.State = &state
		do := first.Do
		first.Do = func(ctx context.Context, s *phase.Scope) error { state["id"] = "vol-1"; return do(ctx, s) }
		second := tr.step("second", fail)
		second.Undo.Do = nil
		return []phase.Step{first, second}
	}
	require.Error(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), steps(errors.New("crash"))))
	clear(state)
	e := phase.New(phase.Config{Journal: j})
	require.NoError(t, e.Run(t.Context(), steps(nil)))
	assert.Equal(t, []string{"first", "second", "second"}, tr.did)
	assert.Equal(t, "vol-1", state["id"])
	assert.Equal(t, phase.Skipped, e.Timings()[0].Steps[0].Outcome)
}

func TestRun_StepWithoutDeadline_IsRefusedBeforeAnything(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	bad := tr.step("b", nil)
	bad.Deadline = 0
	require.ErrorContains(t, phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), []phase.Step{tr.step("a", nil), bad}), "deadline")
	assert.Empty(t, tr.did)
}

func TestRun_ReadOnlyStepFails_JournalIsNeverWritten(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	check := tr.step("preflight", errors.New("no stores"))
	check.ReadOnly = true
	require.Error(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{check, tr.step("lock", nil)}))
	assert.Empty(t, j.lines())
}

func TestRun_ReadOnlyStepThenOthers_JournalHoldsAllInOrder(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	check := tr.step("preflight", nil)
	check.ReadOnly = true
	require.NoError(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{check, tr.step("lock", nil)}))
	assert.Equal(t, []string{"run ", "begin preflight", "done preflight", "begin lock", "done lock", "end "}, j.lines())
}

// What a run is may be known only right before its journal begins.
func TestRun_Begin_IsAskedOnceRightBeforeTheJournal(t *testing.T) {
	t.Parallel()
	j, tr, asked := &memory{}, &trace{}, 0
	check := tr.step("preflight", nil)
	check.ReadOnly = true
	begin := func(context.Context) (any, error) {
		asked++
		require.Equal(t, []string{"preflight"}, tr.did)
		require.Empty(t, j.lines())
		return "late", nil
	}
	require.NoError(t, phase.New(phase.Config{Journal: j, Begin: begin}).Run(t.Context(), []phase.Step{check, tr.step("lock", nil), tr.step("work", nil)}))
	require.Equal(t, 1, asked)
	require.JSONEq(t, `"late"`, string(j.records[0].Data))
}

func TestRun_BeginFails_NothingIsWrittenAndNothingDone(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	begin := func(context.Context) (any, error) { return nil, errors.New("refused") }
	require.ErrorContains(t, phase.New(phase.Config{Journal: j, Begin: begin}).Run(t.Context(), []phase.Step{tr.step("lock", nil)}), "refused")
	require.Empty(t, j.lines())
	require.Empty(t, tr.did)
}

func TestRun_FreshRunWithUsedID_IsAConflictAndDoesNothing(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	require.NoError(t, phase.New(phase.Config{Journal: j, Fresh: true}).Run(t.Context(), []phase.Step{tr.step("a", nil)}))
	before := j.lines()
	err := phase.New(phase.Config{Journal: j, Fresh: true}).Run(t.Context(), []phase.Step{tr.step("a", nil)})
	assert.True(t, failure.Is(err, failure.Conflict))
	assert.Equal(t, []string{"a"}, tr.did)
	assert.Equal(t, before, j.lines())
}

func TestRun_StepWithRetry_IsRetriedUntilItsDeadline(t *testing.T) {
	t.Parallel()
	limited := failure.New(failure.Limited, "ask pd", "", "no leader")
	for name, row := range map[string]struct {
		retry bool
		errs  []error
		tries int
		kind  failure.Kind
	}{
		"succeeds at the third try": {true, []error{limited, limited, nil}, 3, failure.Unknown},
		"without retry":             {false, []error{limited, nil}, 1, failure.Limited},
		"a permanent error":         {true, []error{failure.New(failure.Denied, "ask", "", "no"), nil}, 1, failure.Denied},
		"until the deadline":        {true, []error{limited}, 0, failure.Limited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				err := phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), []phase.Step{{
					Phase: "p", Name: "s", Deadline: time.Minute, Retry: row.retry,
					Do: func(context.Context, *phase.Scope) error {
						tries++
						return row.errs[min(tries, len(row.errs))-1]
					},
				}})
				assert.Equal(t, row.kind, failure.KindOf(err))
				if row.tries > 0 {
					assert.Equal(t, row.tries, tries)
				} else {
					assert.Greater(t, tries, 5)
				}
			})
		})
	}
}

func TestRun_LastRecordIsRefused_WorkIsDoneButPartial(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	j := &memory{refuse: func(r phase.Record) error {
		if r.Type == phase.RecordEnd {
			return errors.New("storage is away")
		}
		return nil
	}}
	err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{tr.step("a", nil)})
	assert.Equal(t, failure.Partial, failure.KindOf(err))
	assert.Equal(t, []string{"a"}, tr.did, "nothing is undone")
}
