package history

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Run is the summary of a run's report. A zero field is not in the report.
type Run struct {
	// Key is the report's object, and Version identifies its content.
	Key     string           `json:"key"`
	Version objstore.Version `json:"version"`
	// Problem is why the report cannot be read; the fields below are then empty.
	Problem string `json:"problem,omitempty"`

	Operation report.Operation `json:"operation"`
	Run       cluster.RunID    `json:"run"`
	Backup    cluster.BackupID `json:"backup"`
	Cluster   cluster.Name     `json:"cluster"`
	Outcome   phase.Outcome    `json:"outcome"`
	// ErrorKind is the kind of a failed run's error.
	ErrorKind string    `json:"errorKind,omitempty"`
	Started   time.Time `json:"started"`
	Finished  time.Time `json:"finished"`
	Seconds   float64   `json:"seconds"`
	// HoldSeconds and CutSeconds are zero for a run without a hold.
	HoldSeconds    float64                `json:"holdSeconds,omitempty"`
	CutSeconds     float64                `json:"cutSeconds,omitempty"`
	Attempts       int                    `json:"attempts,omitempty"`
	TiKVs          int                    `json:"tikvs"`
	Volumes        int                    `json:"volumes"`
	DataBytes      int64                  `json:"dataBytes,omitempty"`
	PerVolumeBytes int64                  `json:"perVolumeBytes,omitempty"`
	Settings       *report.VolumeSettings `json:"settings,omitempty"`
	Changed        *report.Changed        `json:"changed,omitempty"`
	EarlyApply     *report.EarlyApply     `json:"earlyApply,omitempty"`
	Regions        *report.Regions        `json:"regions,omitempty"` // of a restore
	// StoredBytes and RequestsUSD are of an archive; the latter is nil if a price is unknown.
	StoredBytes int64    `json:"storedBytes,omitempty"`
	RequestsUSD *float64 `json:"requestsUSD,omitempty"`
	Phases      []Phase  `json:"phases,omitempty"`
	Warnings    int      `json:"warnings,omitempty"`
}

// Phase is the total own time of all phases of a name: without that in which an earlier one was also running.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Summarize returns the summary of a report.
func Summarize(r *report.Report) Run {
	run := Run{
		Operation: r.Operation, Run: r.Run, Backup: r.Backup, Cluster: r.Cluster, Outcome: r.Outcome,
		ErrorKind: r.ErrorKind,
		Started:   r.Started, Finished: r.Finished, Seconds: r.TotalSeconds, TiKVs: r.TiKVs, Volumes: r.Volumes,
		DataBytes: r.DataBytes, PerVolumeBytes: r.DataPerVolumeBytes, Settings: r.VolumeSettings, Changed: r.Changed,
		EarlyApply: r.EarlyApply, Regions: r.Regions, Warnings: len(r.Warnings),
	}
	if r.Hold != nil {
		run.HoldSeconds, run.CutSeconds, run.Attempts = r.Hold.Seconds, r.Hold.CutSeconds, r.Hold.Attempts
	}
	if r.Archived != nil {
		run.StoredBytes, run.RequestsUSD = r.Archived.StoredBytes, r.Archived.RequestsUSD
	}
	for i := range r.Phases {
		run.add(r.Phases[i].Name, r.Phases[i].Own())
	}
	return run
}

func (r *Run) add(name string, seconds float64) {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			r.Phases[i].Seconds += seconds
			return
		}
	}
	r.Phases = append(r.Phases, Phase{Name: name, Seconds: seconds})
}

// PhaseSeconds returns the time of the phase; false if the run had none of that name.
func (r *Run) PhaseSeconds(name string) (float64, bool) {
	for _, p := range r.Phases {
		if p.Name == name {
			return p.Seconds, true
		}
	}
	return 0, false
}
