package phase_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// died is a journal of a process that died: the records that it wrote.
func died(records ...phase.Record) *memory {
	j := &memory{}
	for i, r := range append([]phase.Record{{Type: phase.RecordRun}}, records...) {
		r.Seq, r.Run, r.Time = i+1, "r", time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		j.records = append(j.records, r)
	}
	return j
}

func begin(step string) phase.Record { return phase.Record{Type: phase.RecordBegin, Step: step} }

func done(step string) phase.Record {
	return phase.Record{Type: phase.RecordDone, Step: step, Seconds: 2}
}

// continuing is a config that continues runs admitted by the step lock.
func continuing(j phase.Journal, group *phase.RetryGroup, adopt func()) phase.Config {
	return phase.Config{Run: "r", Journal: j, Fresh: true, Group: group, Resume: &phase.Resume{
		Admit: "lock", Same: func(*phase.History) error { return nil }, Epoch: func() int64 { return 7 },
		Adopt: func(context.Context, *phase.Scope, *phase.History) error { adopt(); return nil },
	}}
}

// A run of three processes: killed in a step, failed between two, and one that came to its end.
func TestProcesses_EachHasItsTimeItsGapAndTheStepItDiedIn(t *testing.T) {
	t.Parallel()
	records := died(begin("lock"), done("lock"), begin("a"), begin("b"), done("a"), // b is under way
		phase.Record{Type: phase.RecordResumed}, begin("b"), done("b"),
		phase.Record{Type: phase.RecordResumed}, begin("c"), done("c"), phase.Record{Type: phase.RecordEnd})
	for i := range records.records {
		r := &records.records[i]
		switch {
		case i >= 9:
			r.Time = r.Time.Add(-time.Minute) // a host whose clock is behind
		case i >= 6:
			r.Time = r.Time.Add(time.Hour)
		}
	}
	h, err := phase.ReadHistory(t.Context(), records)
	require.NoError(t, err)
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	require.Equal(t, []phase.Process{
		{Start: at(0), End: at(5), Seconds: 4, Step: "b"},
		{Start: at(3606), End: at(3608), Seconds: 2, GapSeconds: 3601},
		{Start: at(9 - 60), End: at(12 - 60), Seconds: 2},
	}, h.Processes())
}

func TestResume_DoneIsAdopted_BegunIsDoneAgain_LockIsRepeated(t *testing.T) {
	t.Parallel()
	j, tr := died(begin("lock"), done("lock"), begin("a"), done("a"), begin("b")), &trace{}
	lock := tr.step("lock", nil)
	lock.Resume.Repeat = true
	a := tr.step("a", nil)
	a.Resume.Adopted = func(context.Context, *phase.Scope) error { tr.did = append(tr.did, "adopt a"); return nil }
	e := phase.New(continuing(j, nil, func() { tr.did = append(tr.did, "adopt") }))
	require.NoError(t, e.Run(t.Context(), []phase.Step{lock, a, tr.step("b", nil)}))
	assert.Equal(t, []string{"lock", "adopt", "adopt a", "b"}, tr.did)
	assert.Equal(t, []string{"resumed ", "begin lock", "done lock", "begin b", "done b", "end "}, j.lines()[6:])
	for i, r := range j.records[6:] {
		assert.Equal(t, 7+i, r.Seq)
		assert.EqualValues(t, 7, r.Epoch)
	}
	require.Len(t, e.Before(), 1)
	assert.Equal(t, "b", e.Before()[0].Step)
	assert.InDelta(t, 4, e.Before()[0].Seconds, 0)
	var adopted []phase.StepTiming
	for _, p := range e.Timings() {
		for _, s := range p.Steps {
			if s.Outcome == phase.Skipped {
				adopted = append(adopted, s)
				assert.GreaterOrEqual(t, p.Seconds, 2.0, "with what the first process did of it")
			}
		}
	}
	require.Len(t, adopted, 1)
	assert.Equal(t, "a", adopted[0].Name)
	assert.InDelta(t, 2, adopted[0].Seconds, 0, "by the first process's clock")
}

func TestResume_Fails_UndoesWhatEarlierProcessesLeft(t *testing.T) {
	t.Parallel()
	j, tr := died(begin("lock"), done("lock"), begin("a"), done("a"), begin("b")), &trace{}
	lock := tr.step("lock", nil)
	lock.Resume.Repeat = true
	first := tr.step("first", errBroken) // new in this version
	e := phase.New(continuing(j, nil, func() {}))
	require.ErrorIs(t, e.Run(t.Context(), []phase.Step{lock, first, tr.step("a", nil), tr.step("b", nil)}), errBroken)
	assert.Equal(t, []string{"lock", "first", "undo first", "undo b", "undo a", "undo lock"}, tr.did)
}

func TestResume_GroupIsNotDone_BeginsFromTheStart(t *testing.T) {
	t.Parallel()
	group := &phase.RetryGroup{From: "a", To: "b", Attempts: 1}
	for name, row := range map[string]struct {
		journal *memory
		want    []string
	}{
		"its last step is not done": {died(begin("check"), done("check"), begin("lock"), done("lock"), begin("a"), done("a"), begin("b")), []string{"check", "lock", "adopt", "a", "b"}},
		"it is done":                {died(begin("check"), done("check"), begin("lock"), done("lock"), begin("a"), done("a"), begin("b"), done("b")), []string{"lock", "adopt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &trace{}
			lock := tr.step("lock", nil)
			lock.Resume.Repeat = true
			e := phase.New(continuing(row.journal, group, func() { tr.did = append(tr.did, "adopt") }))
			require.NoError(t, e.Run(t.Context(), []phase.Step{tr.step("check", nil), lock, tr.step("a", nil), tr.step("b", nil)}))
			assert.Equal(t, row.want, tr.did)
		})
	}
}

// Until the lock is held the journal may be another process's: its next record must find its place free.
func TestResume_NotAdmitted_WritesNothing(t *testing.T) {
	t.Parallel()
	j, tr := died(begin("lock"), done("lock")), &trace{}
	lock := tr.step("lock", failure.New(failure.Conflict, "lock", "", "held"))
	lock.Resume.Repeat = true
	err := phase.New(continuing(j, nil, func() {})).Run(t.Context(), []phase.Step{lock})
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	assert.Len(t, j.records, 3)
}

// A run that never had the lock leaves no journal, by which it would be listed for ever; one that had it has all records.
func TestRun_NewAndNotAdmitted_LeavesNoJournal(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lock error
		want []string
	}{
		"refused": {failure.New(failure.Conflict, "lock", "", "held"), nil},
		"admitted": {nil, []string{
			"run ", "begin check", "done check", "begin lock", "done lock", "begin a", "done a", "end ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, tr := &memory{}, &trace{}
			check := tr.step("check", nil)
			check.ReadOnly = true
			e := phase.New(continuing(j, nil, func() { t.Error("nothing is adopted") }))
			require.ErrorIs(t, e.Run(t.Context(), []phase.Step{check, tr.step("lock", row.lock), tr.step("a", nil)}), row.lock)
			assert.Equal(t, row.want, j.lines())
			assert.Equal(t, row.want != nil, e.Journalled())
		})
	}
}

// The error names what the other process did: a run that it finished was never another's to resume.
func TestResume_AnotherProcessWasFaster_IsAConflict(t *testing.T) {
	t.Parallel()
	for want, record := range map[string]phase.Record{
		"another process has worked on it meanwhile": {Type: phase.RecordResumed},
		"its process was alive, and has finished it": {Type: phase.RecordEnd},
		"it has failed meanwhile: no quota":          {Type: phase.RecordEnd, Error: "no quota"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			j, tr := died(begin("lock"), done("lock")), &trace{}
			lock := tr.step("lock", nil)
			lock.Resume.Repeat = true
			lock.Do = func(context.Context, *phase.Scope) error {
				record.Seq = 4
				j.records = append(j.records, record)
				return nil
			}
			err := phase.New(continuing(j, nil, func() {})).Run(t.Context(), []phase.Step{lock, tr.step("a", nil)})
			assert.Equal(t, failure.Conflict, failure.KindOf(err))
			assert.ErrorContains(t, err, want)
			assert.NotContains(t, tr.did, "a")
		})
	}
}

func TestResume_RunWasBeingUndone_IsAConflict(t *testing.T) {
	t.Parallel()
	j, tr := died(begin("lock"), done("lock"), begin("a"), phase.Record{Type: phase.RecordUndo, Step: "a"}), &trace{}
	err := phase.New(continuing(j, nil, func() {})).Run(t.Context(), []phase.Step{tr.step("lock", nil), tr.step("a", nil)})
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	assert.Contains(t, failure.HintOf(err), "runs abort")
	assert.Empty(t, tr.did)
}

// The same command again ends what the process that died had begun to undo, and then does what was asked for.
func TestResume_RunWasBeingUndone_RestIsUndoneAndAllIsDoneAgain(t *testing.T) {
	t.Parallel()
	undo := phase.Record{Type: phase.RecordUndo, Step: "b"}
	undone := phase.Record{Type: phase.RecordUndone, Step: "b"}
	for name, row := range map[string]struct {
		records []phase.Record
		want    []string
	}{
		"in an undo":        {[]phase.Record{undo}, []string{"undo b", "undo a"}},
		"after an undo":     {[]phase.Record{undo, undone}, []string{"undo a"}},
		"and it died again": {[]phase.Record{undo, {Type: phase.RecordResumed}, begin("lock"), done("lock")}, []string{"undo b", "undo a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := died(append([]phase.Record{begin("check"), done("check"), begin("lock"), done("lock"), begin("a"), done("a"), begin("b")}, row.records...)...)
			tr := &trace{}
			lock := tr.step("lock", nil)
			lock.Resume.Repeat = true
			cfg := continuing(j, nil, func() {})
			cfg.Resume.StartOver = func(_ context.Context, h *phase.History) (string, error) {
				if !h.Undoing() {
					return "", nil
				}
				return "it was being undone", nil
			}
			cfg.Resume.Reset = func() error { tr.did = append(tr.did, "reset"); return nil }
			check := tr.step("check", nil)
			check.Undo.Do = nil
			a, b := tr.step("a", nil), tr.step("b", nil)
			check.Phase, lock.Phase, a.Phase, b.Phase = "begin", "begin", "middle", "begin"
			e := phase.New(cfg)
			require.NoError(t, e.Run(t.Context(), []phase.Step{check, lock, a, b}))
			want := append([]string{"lock"}, row.want...)
			assert.Equal(t, append(want, "reset", "check", "a", "b"), tr.did)
			h, err := phase.ReadHistory(t.Context(), j)
			require.NoError(t, err)
			assert.False(t, h.Undoing())
			assert.True(t, h.Ended)
			assert.Empty(t, h.Error)
			var phases []string
			for _, p := range e.Timings() {
				assert.Equal(t, phase.Done, p.Outcome, p.Phase)
				phases = append(phases, p.Phase)
			}
			assert.Equal(t, []string{"begin", "middle", "begin"}, phases, "as in a run that is not disturbed")
		})
	}
}

// After the rest is undone the run is a new one: a process that dies then is continued as any other.
func TestResume_DiesAfterItStartedOver_IsContinued(t *testing.T) {
	t.Parallel()
	again := phase.Record{Type: phase.RecordRetryGroup, Step: "lock", Data: []byte(`["lock","a","b"]`)}
	j := died(begin("lock"), done("lock"), begin("a"), done("a"), phase.Record{Type: phase.RecordUndo, Step: "a"},
		phase.Record{Type: phase.RecordResumed}, begin("b"), again, begin("a"), done("a"))
	tr := &trace{}
	lock := tr.step("lock", nil)
	lock.Resume.Repeat = true
	cfg := continuing(j, nil, func() {})
	cfg.Resume.StartOver = func(context.Context, *phase.History) (string, error) { return "", nil }
	require.NoError(t, phase.New(cfg).Run(t.Context(), []phase.Step{lock, tr.step("a", nil), tr.step("b", nil)}))
	assert.Equal(t, []string{"lock", "b"}, tr.did)
}

func TestResume_RestCannotBeUndone_RunIsNotOver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		startOver error
		undo      error
		want      []string
	}{
		"it is refused": {errBroken, nil, []string{"lock"}},
		"an undo fails": {nil, errBroken, []string{"lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := died(begin("lock"), done("lock"), begin("a"), phase.Record{Type: phase.RecordUndo, Step: "a"})
			tr := &trace{}
			lock := tr.step("lock", nil)
			lock.Resume.Repeat, lock.Undo.Do = true, nil
			a := tr.step("a", nil)
			undo := a.Undo.Do
			a.Undo.Do = func(ctx context.Context, s *phase.Scope) error {
				if row.undo != nil {
					return row.undo
				}
				return undo(ctx, s)
			}
			cfg := continuing(j, nil, func() {})
			cfg.Resume.StartOver = func(context.Context, *phase.History) (string, error) { return "why", row.startOver }
			require.ErrorIs(t, phase.New(cfg).Run(t.Context(), []phase.Step{lock, a}), errBroken)
			h, err := phase.ReadHistory(t.Context(), j)
			require.NoError(t, err)
			assert.True(t, h.Unfinished(), "another process can try it again")
			assert.Equal(t, row.want, tr.did)
		})
	}
}

func TestResume_RunHasEnded_IsAConflict(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]phase.Record{"well": {Type: phase.RecordEnd}, "with an error": {Type: phase.RecordEnd, Error: "e"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := phase.New(continuing(died(end), nil, func() {})).Run(t.Context(), []phase.Step{(&trace{}).step("lock", nil)})
			assert.Equal(t, failure.Conflict, failure.KindOf(err))
		})
	}
}

func TestResume_Abort_UndoesAndSucceeds(t *testing.T) {
	t.Parallel()
	j, tr := died(begin("lock"), done("lock"), begin("a"), done("a")), &trace{}
	lock := tr.step("lock", nil)
	lock.Resume.Repeat = true
	cfg := continuing(j, nil, func() {})
	cfg.Resume.Abort = true
	require.NoError(t, phase.New(cfg).Run(t.Context(), []phase.Step{lock, tr.step("a", nil), tr.step("b", nil)}))
	assert.Equal(t, []string{"lock", "undo a", "undo lock"}, tr.did)
	assert.Equal(t, phase.RecordEnd, j.records[len(j.records)-1].Type)
}

// A process that slept may write after the one that took over, if that one has written nothing for a while.
// What runs now counts until now; what ended, or is of an earlier process, does not.
func TestHistory_RunningSeconds_OfTheLastProcess(t *testing.T) {
	t.Parallel()
	h, err := phase.ReadHistory(t.Context(), died(begin("died in"), phase.Record{Type: phase.RecordResumed}, begin("a"), done("a"),
		begin("b"), begin("c"), phase.Record{Type: phase.RecordFailed, Step: "c"}, phase.Record{Type: phase.RecordUndo, Step: "a"}))
	require.NoError(t, err)
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	require.InDelta(t, 5+2, h.RunningSeconds(at(10)), 0.001, "b since 5 s, and the undo of a since 8 s")
	require.Zero(t, h.RunningSeconds(at(0)), "a clock that is behind")
}

func TestHistory_Epoch_IsTheHighestOfItsProcesses(t *testing.T) {
	t.Parallel()
	require.Zero(t, (&phase.History{}).Epoch())
	h := &phase.History{Records: []phase.Record{{Epoch: 1}, {Epoch: 3}, {Epoch: 2}}}
	require.EqualValues(t, 3, h.Epoch())
}
