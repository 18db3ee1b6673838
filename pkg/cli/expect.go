package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/report"
)

// expectDeadline bounds how long the begin and the end of a run wait for the runs before it; fitDays is how old those
// may be.
const (
	expectDeadline = 5 * time.Second
	fitDays        = 90
)

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

// announcer says at the run's start how long it should take, by the model scaled to the storage's past runs, and at the
// begin of each phase after that how long it and the rest of the run should.
type announcer struct {
	phase.Sink
	past []history.Run

	mu       sync.Mutex
	expected *report.Expected // nil until it is announced
}

func newAnnouncer(sink phase.Sink, past []history.Run) *announcer {
	return &announcer{Sink: sink, past: past}
}

// ofBackup announces a backup of the source. How much data there is, and how much of it changes between two backups,
// only the cluster's last backup says: without one, nothing is announced.
func (a *announcer) ofBackup(source *preflight.Source, earlier json.RawMessage) (json.RawMessage, string) {
	in := estimate.Input{}
	if last := lastBackupIn(a.past, source.Topology.Cluster); last != nil {
		in = onVolumes(inputOf(last), len(source.Topology.Stores), sourceSpecs(&source.Topology))
	}
	return a.announce(in, earlier)
}

// announce keeps what is expected of the run, as an earlier process of it has journalled it or else by the model, and
// returns it for the journal and as a sentence.
func (a *announcer) announce(in estimate.Input, earlier json.RawMessage) (json.RawMessage, string) {
	e := announced(earlier)
	if e == nil {
		made, err := estimate.Of(in, fitOf(a.past), nil)
		if err != nil {
			return nil, ""
		}
		e = made.Expected()
		if earlier, err = json.Marshal(e); err != nil {
			return nil, ""
		}
	}
	a.mu.Lock()
	a.expected = e
	a.mu.Unlock()
	return earlier, fmt.Sprintf("the run is expected to take %s (%s to %s), by %s",
		report.Duration(e.Seconds), report.Duration(e.LowSeconds), report.Duration(e.HighSeconds), e.Model)
}

// announced reads what was journalled of it; nil if nothing was, or another version's that is not understood.
func announced(journalled json.RawMessage) *report.Expected {
	var e report.Expected
	if len(journalled) == 0 || json.Unmarshal(journalled, &e) != nil || e.Seconds <= 0 {
		return nil
	}
	return &e
}

// Emit implements phase.Sink.
func (a *announcer) Emit(e phase.Event) {
	a.Sink.Emit(e)
	a.mu.Lock()
	expected := a.expected
	a.mu.Unlock()
	if e.Type != phase.PhaseStarted || expected == nil {
		return
	}
	left, mine := 0.0, -1.0
	for _, p := range expected.Phases {
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
	note.Type, note.Message = phase.Note, "expected to take "+report.Duration(mine)+", the run "+report.Duration(left)+
		" from here, by "+expected.Model
	a.Sink.Emit(note)
}
