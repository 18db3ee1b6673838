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

// expectDeadline bounds how long the end of a run waits for the runs before it; fitDays is how old those may be.
const (
	expectDeadline = 5 * time.Second
	fitDays        = 90
)

// expect notes in the report of a run that was done what the model, scaled to the runs before it, says of one with its
// data. That these runs cannot be read costs nothing but the scaling.
func (g *globalFlags) expect(ctx context.Context, store objstore.Store, r *report.Report) {
	if r.Outcome != phase.Done || r.DataBytes <= 0 || r.Operation == report.Resolve {
		return
	}
	reader, cache := history.Open(store), g.historyCache(store)
	cache.load(reader)
	short, cancel := context.WithTimeout(ctx, expectDeadline)
	defer cancel()
	var fit *estimate.Fit
	if state, err := reader.Runs(short, time.Now().AddDate(0, 0, -fitDays)); err == nil {
		fit = fitOf(state.Runs)
		cache.save(reader)
	}
	run := history.Summarize(r)
	if e, err := estimate.Of(inputOf(&run), fit, nil); err == nil {
		r.Expected = e.Expected()
	}
}

// etaSink says at the begin of each phase how long it and the rest of the run should take.
type etaSink struct {
	phase.Sink
	expected *report.Expected
}

// withETA is a sink that knows what the last runs took, by this machine's cache of the storage: a run asks the storage
// nothing for it. Without one it is sink itself.
func (g *globalFlags) withETA(sink phase.Sink, store objstore.Store, same func(*history.Run) bool) phase.Sink {
	reader, cache := history.Open(store), g.historyCache(store)
	cache.load(reader)
	runs := reader.Known()
	fit := fitOf(runs)
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Outcome == phase.Done && runs[i].DataBytes > 0 && same(&runs[i]) {
			if e, err := estimate.Of(inputOf(&runs[i]), fit, nil); err == nil {
				return &etaSink{Sink: sink, expected: e.Expected()}
			}
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
