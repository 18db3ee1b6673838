package notify

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// ContentType is the content type of CloudEvents' structured mode.
const ContentType = "application/cloudevents+json; charset=utf-8"

// Event is a CloudEvents 1.0 envelope with the summary. Fields are added between versions and never renamed.
type Event struct {
	SpecVersion string `json:"specversion"` // "1.0"
	// ID is the same in each try, so that a receiver can drop duplicates.
	ID string `json:"id"`
	// Source is the run's cluster, "/clusters/NAMESPACE/NAME", or "/tisnap" if unknown.
	Source string `json:"source"`
	// Type is "io.tisnap.OPERATION.done" or "io.tisnap.OPERATION.failed".
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"` // the backup
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            Summary   `json:"data"`
}

// Summary is a run's outcome.
type Summary struct {
	Operation string           `json:"operation"` // "backup", "restore", "resolve", "delete"
	Outcome   phase.Outcome    `json:"outcome"`   // phase.Done or phase.Failed
	ExitCode  int              `json:"exitCode"`
	Kind      string           `json:"kind,omitempty"`  // of the error, as in docs/scripting.md
	Error     string           `json:"error,omitempty"` // one line of at most failure.MaxRemote bytes
	Hint      string           `json:"hint,omitempty"`  // what to do about it
	Cluster   string           `json:"cluster,omitempty"`
	Backup    cluster.BackupID `json:"backup,omitempty"`
	Run       cluster.RunID    `json:"run,omitempty"`
	Started   time.Time        `json:"started,omitzero"`
	Finished  time.Time        `json:"finished,omitzero"`
	// TotalSeconds and what follows are from the run's report.
	TotalSeconds float64  `json:"totalSeconds,omitempty"`
	HoldSeconds  float64  `json:"holdSeconds,omitempty"`
	CutSeconds   float64  `json:"cutSeconds,omitempty"`
	HoldAttempts int      `json:"holdAttempts,omitempty"`
	TiKVs        int      `json:"tikvs,omitempty"`
	Volumes      int      `json:"volumes,omitempty"`
	DataBytes    int64    `json:"dataBytes,omitempty"`
	Phases       []Phase  `json:"phases,omitempty"`
	Warnings     []string `json:"warnings,omitempty"` // at most failure.MaxListed, each one line
	// Deleted and Left count the snapshots, volumes and records of a delete.
	Deleted int `json:"deleted,omitempty"`
	Left    int `json:"left,omitempty"`
}

// Phase is how long a phase of the run took.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Failed adds the error to the summary; nil is a run that succeeded.
func (s *Summary) Failed(err error, exitCode int) {
	s.Outcome, s.ExitCode = phase.Done, exitCode
	if err == nil {
		return
	}
	s.Outcome, s.Kind = phase.Failed, failure.KindOf(err).String()
	s.Error, s.Hint = failure.Line(err.Error()), failure.Line(strings.Join(failure.HintsOf(err), "; "))
}

// FromReport fills in the summary from a run's report, which may be nil.
func (s *Summary) FromReport(r *report.Report) {
	if r == nil {
		return
	}
	s.Operation, s.Cluster, s.Backup, s.Run = string(r.Operation), r.Cluster.String(), r.Backup, r.Run
	s.Started, s.Finished, s.TotalSeconds = r.Started, r.Finished, r.TotalSeconds
	s.TiKVs, s.Volumes, s.DataBytes = r.TiKVs, r.Volumes, r.DataBytes
	if r.Hold != nil {
		s.HoldSeconds, s.CutSeconds, s.HoldAttempts = r.Hold.Seconds, r.Hold.CutSeconds, r.Hold.Attempts
	}
	for _, p := range r.Phases {
		s.Phases = append(s.Phases, Phase{Name: p.Name, Seconds: p.Seconds})
	}
	for _, w := range r.Warnings[:min(len(r.Warnings), failure.MaxListed)] {
		s.Warnings = append(s.Warnings, failure.Line(w))
	}
}

// newEvent wraps the summary; its id is new.
func newEvent(s Summary, now time.Time) Event {
	source := "/tisnap"
	if s.Cluster != "" {
		source = "/clusters/" + pathEscaped(s.Cluster)
	}
	return Event{
		SpecVersion: "1.0", ID: rand.Text(), Source: source, Type: "io.tisnap." + s.Operation + "." + string(s.Outcome),
		Subject: string(s.Backup), Time: now.UTC(), DataContentType: "application/json", Data: s,
	}
}

func encode(e Event) ([]byte, error) {
	body, err := json.Marshal(e)
	return body, failure.Wrap(err, failure.Unknown, "encode event", "")
}
