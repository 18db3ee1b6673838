package crash

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// diedInWait is the journal of a run whose process died in its step "wait": "load" and "make" are done.
func diedInWait(t *testing.T, start time.Time) *phase.History {
	t.Helper()
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/r/")
	for i, r := range []phase.Record{
		{Type: phase.RecordRun},
		{Type: phase.RecordBegin, Step: "load"},
		{Type: phase.RecordDone, Step: "load", Seconds: 1},
		{Type: phase.RecordBegin, Step: "make"},
		{Type: phase.RecordDone, Step: "make", Seconds: 2.5},
		{Type: phase.RecordBegin, Step: "wait"},
	} {
		r.Seq, r.Run, r.Time = i+1, "r", start.Add(time.Duration(i)*time.Second)
		require.NoError(t, journal.Append(t.Context(), r))
	}
	h, err := phase.ReadHistory(context.WithoutCancel(t.Context()), journal)
	require.NoError(t, err)
	return h
}

// Every phase's time survives the crash: a report that lost any of it is found.
func TestReportsAttempts_WhatIsLost_IsFound(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	dead := diedInWait(t, start)
	for name, row := range map[string]struct {
		change func(*report.Report)
		want   string
	}{
		"nothing":       {func(*report.Report) {}, ""},
		"the process":   {func(r *report.Report) { r.Processes = nil }, "the report has 0 processes"},
		"the run":       {func(r *report.Report) { r.Run = "another" }, "run r was killed"},
		"its start":     {func(r *report.Report) { r.Processes[0].Start = start.Add(time.Second) }, "the first process from"},
		"its end":       {func(r *report.Report) { r.Processes[0].End = start }, "the first process from"},
		"the gap":       {func(r *report.Report) { r.Processes[1].GapSeconds = 0 }, "a gap of 0 s"},
		"the wall time": {func(r *report.Report) { r.WallSeconds = 10 }, "10 s across its processes"},
		"a step's time": {func(r *report.Report) { r.Phases[0].Steps[1].Seconds = 0 }, "0 s for step make, which took 2.5 s"},
		"a step":        {func(r *report.Report) { r.Phases[0].Steps = r.Phases[0].Steps[:1] }, "lacks steps that were done before the kill: map[make:2.5]"},
		"a step, done again": {func(r *report.Report) {
			r.Phases[0].Steps[1] = report.Step{Name: "make", Seconds: 7, Outcome: phase.Done}
		}, ""},
		"a step, failed again": {func(r *report.Report) { r.Phases[0].Steps[1].Outcome = phase.Failed }, "lacks steps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &report.Report{WallSeconds: 40, Phases: []report.Phase{{Steps: []report.Step{
				{Name: "load", Seconds: 3, Outcome: phase.Done}, {Name: "make", Seconds: 2.5, Outcome: phase.Skipped},
			}}}}
			r.Run, r.Started, r.Finished = "r", start.Add(30*time.Second), start.Add(40*time.Second)
			r.Processes = []phase.Process{
				{Start: start, End: start.Add(5 * time.Second), Seconds: 3.5, Step: "wait"},
				{Start: start.Add(30 * time.Second), End: start.Add(40 * time.Second), GapSeconds: 25},
			}
			row.change(r)
			err := reportsAttempts(r, dead)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
	require.NoError(t, reportsAttempts(nil, nil), "the process had no lock yet")
	require.Error(t, reportsAttempts(nil, dead))
}
