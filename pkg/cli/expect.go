package cli

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// expectDeadline bounds how long the begin and the end of a run wait for the runs before it; fitDays is how old those may be.
const (
	expectDeadline = 5 * time.Second
	fitDays        = 90
)

// expect notes in the report of a run that was done what the model, scaled to the runs before it, says of one with its
// data.
func expect(r *report.Report, past []history.Run) {
	if r.Outcome != phase.Done || r.DataBytes <= 0 || r.Operation == report.Resolve {
		return
	}
	run := history.Summarize(r)
	if e, err := estimate.Of(inputOf(&run), fitOf(past), nil); err == nil {
		r.Expected = e.Expected()
	}
}

// pastRuns are the storage's runs of the last months, the oldest first. What cannot be read within some seconds is left
// out: of a storage that does not answer they are those that this machine's cache knows.
func (g *globalFlags) pastRuns(ctx context.Context, store objstore.Store) []history.Run {
	reader, cache := history.Open(store), g.historyCache(store)
	cache.load(reader)
	short, cancel := context.WithTimeout(ctx, expectDeadline)
	defer cancel()
	state, err := reader.Runs(short, time.Now().AddDate(0, 0, -fitDays))
	if err != nil {
		return reader.Known()
	}
	cache.save(reader)
	return state.Runs
}

// etaSink says at the begin of each phase how long it and the rest of the run should take.
type etaSink struct {
	phase.Sink
	expected *report.Expected
}

// withETA is a sink that says what a run of op on the data of the newest of the storage's runs that is like it should take,
// by the model scaled to these runs. Without such a run it is sink itself.
func (g *globalFlags) withETA(ctx context.Context, sink phase.Sink, store objstore.Store, op report.Operation, like func(*history.Run) bool) phase.Sink {
	runs := g.pastRuns(ctx, store)
	fit := fitOf(runs)
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Outcome != phase.Done || runs[i].DataBytes <= 0 || !like(&runs[i]) {
			continue
		}
		in := inputOf(&runs[i])
		in.Operation = op
		if e, err := estimate.Of(in, fit, nil); err == nil {
			return &etaSink{Sink: sink, expected: e.Expected()}
		}
	}
	return sink
}

// Emit implements phase.Sink.
func (s *etaSink) Emit(e phase.Event) {
	s.Sink.Emit(e)
	if e.Type != phase.PhaseStarted {
		return
	}
	left, mine := 0.0, -1.0
	for _, p := range s.expected.Phases {
		if p.Name == e.Phase {
			mine = p.Seconds
		}
		if mine >= 0 {
			left += p.Seconds
		}
	}
	if mine < 1 {
		return // not known, or over before it is read
	}
	note := e
	note.Type, note.Message = phase.Note, "expected to take "+report.Duration(mine)+", the run "+report.Duration(left)+" from here, by "+s.expected.Model
	s.Sink.Emit(note)
}
