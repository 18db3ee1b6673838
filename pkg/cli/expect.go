package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/underway"
)

// expectDeadline bounds how long the start and the end of a run wait to read past runs; fitDays is how old those may
// be.
const (
	expectDeadline = 5 * time.Second
	fitDays        = 90
)

// pastRuns returns the storage's runs of the last months, oldest first. It skips what cannot be read within a few
// seconds: for an unresponsive storage they are the runs in this machine's cache.
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

// expecter shows how long the run should take, by the model scaled to the storage's past runs: at its start, and again
// at each phase for that phase and the rest of the run.
type expecter struct {
	phase.Sink
	past   []history.Run
	notAWS bool

	mu       sync.Mutex
	expected *report.Expected // nil until it is announced
}

func (g *globalFlags) newExpecter(sink phase.Sink, past []history.Run) *expecter {
	return &expecter{Sink: sink, past: past, notAWS: g.notAWS()}
}

// notAWS reports whether EC2 is another than AWS's own: that of the testbed, or an emulator.
func (g *globalFlags) notAWS() bool {
	endpoint := cmp.Or(g.endpoint, os.Getenv("AWS_ENDPOINT_URL_EC2"), os.Getenv("AWS_ENDPOINT_URL"))
	at, err := url.Parse(endpoint)
	return endpoint != "" && (err != nil ||
		!strings.Contains(at.Hostname()+".", ".amazonaws.com.") && !strings.HasSuffix(at.Hostname(), ".api.aws"))
}

// ofBackup announces a backup of the source. The data size and the change rate come from the cluster's last backup;
// without one, nothing is announced.
func (a *expecter) ofBackup(source *preflight.Source, earlier json.RawMessage) (json.RawMessage, string) {
	in := estimate.Input{}
	if last := lastBackupIn(a.past, source.Topology.Cluster); last != nil {
		in = onVolumes(inputOf(last), len(source.Topology.Stores), sourceSpecs(&source.Topology))
	}
	return a.expectation(in, earlier)
}

// expectation records the run's expected duration, as journalled by an earlier process or else from the model, and
// returns it for the journal and as a sentence.
func (a *expecter) expectation(in estimate.Input, earlier json.RawMessage) (json.RawMessage, string) {
	e := underway.Expected(earlier)
	if e == nil {
		made, err := estimate.Of(in, fitOf(a.past), nil)
		if err != nil {
			return nil, ""
		}
		e = made.Expected()
		e.NotAWS = a.notAWS && !made.Fitted
		if earlier, err = json.Marshal(e); err != nil {
			return nil, ""
		}
	}
	a.mu.Lock()
	a.expected = e
	a.mu.Unlock()
	return earlier, "expected duration: " + e.Text()
}

// Emit implements phase.Sink.
func (a *expecter) Emit(e phase.Event) {
	a.Sink.Emit(e)
	a.mu.Lock()
	expected := a.expected
	a.mu.Unlock()
	if e.Type != phase.PhaseStarted || expected == nil || expected.NotAWS {
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
		return // unknown, or too short to read
	}
	note := e
	note.Type, note.Message = phase.Note, "expected to take "+report.Roughly(mine)+", the run "+report.Roughly(left)+
		" from here, by "+expected.Model
	a.Sink.Emit(note)
}
