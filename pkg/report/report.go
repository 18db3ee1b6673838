package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// APIVersion and Kind are in every report as JSON.
const (
	APIVersion = "tisnap.io/v1"
	Kind       = "Report"
)

// Operation is the kind of run.
type Operation string

// The operations.
const (
	Backup  Operation = "backup"
	Restore Operation = "restore"
	Resolve Operation = "resolve" // the second half of a restore, on its own
	Archive Operation = "archive" // a backup's copy outside EBS
	Copy    Operation = "copy"    // a backup's copy in another region, account or key
	Drill   Operation = "drill"   // a restore that was checked and removed again
)

// Report is how long a run took, and on what. New versions add JSON fields; none is ever renamed.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Header
	// TotalSeconds is from Started to Finished; if one is unknown, or the phases took longer together, it is the sum of
	// their own times. In a resumed run, the steps done before are added.
	TotalSeconds float64 `json:"totalSeconds"`
	// WallSeconds is from the first process's start to Finished, gaps included; 0 for a run of one process.
	WallSeconds float64 `json:"wallSeconds,omitempty"`
	// Phases are in the order in which they ran.
	Phases []Phase `json:"phases"`
}

// Header is everything in a report but the phases.
type Header struct {
	Operation Operation        `json:"operation"`
	Run       cluster.RunID    `json:"run"`
	Backup    cluster.BackupID `json:"backup"`
	// Cluster is the source of a backup, an archive, a copy or a drill, and the target of a restore.
	Cluster cluster.Name `json:"cluster"`
	// Outcome is phase.Done or phase.Failed.
	Outcome  phase.Outcome `json:"outcome"`
	Started  time.Time     `json:"started"`
	Finished time.Time     `json:"finished"`
	// Processes are those of a resumed run, this one last: each with its time in steps, by its own monotonic clock, and
	// the gap before it. Nil for a run of one process, which has Started and Finished.
	Processes []phase.Process `json:"processes,omitempty"`
	TiKVs     int             `json:"tikvs"`
	Volumes   int             `json:"volumes"`
	// DataBytes is all data on the volumes; 0 is unknown.
	DataBytes int64 `json:"dataBytes,omitempty"`
	// DataPerVolumeBytes is the data on the fullest volume, which determines how long the snapshots take; 0 is unknown.
	DataPerVolumeBytes int64 `json:"dataPerVolumeBytes,omitempty"`
	// Hold is how long the cluster was held; nil for a restore, and for a backup that never held it.
	Hold *Hold `json:"hold,omitempty"`
	// Forward is nil for a run that reached PD and the stores directly.
	Forward *Forward `json:"forward,omitempty"`
	// Stores are how long a restore's parts took on each store, in the order of the stores' ids.
	Stores []phase.StoreParts `json:"stores,omitempty"`
	// Regions are those of a restore's flashback; nil for a backup, and for a restore that did not reach it.
	Regions *Regions `json:"regions,omitempty"`
	// EarlyApply is nil without a manifest: the run did not get that far.
	EarlyApply *EarlyApply `json:"earlyApply,omitempty"`
	// Changed is how much was written to since the previous backup; nil for a restore, and if unknown.
	Changed *Changed `json:"changed,omitempty"`
	// Archived is what an archive run read and stored; nil for other runs, and before its blocks were read.
	Archived *Archived `json:"archived,omitempty"`
	// Copied is what a copy run copied; nil for other runs, and before it was planned.
	Copied *CopiedSet `json:"copied,omitempty"`
	// Drilled is how a drill went; nil for other runs.
	Drilled *Drilled `json:"drilled,omitempty"`
	// VolumeSettings are those of the restored volumes, or of a backup's source; nil if unknown.
	VolumeSettings *VolumeSettings `json:"volumeSettings,omitempty"`
	// Expected is what was announced at the run's start; nil if nothing was, as for a cluster's first backup, whose
	// amount of data is unknown at its start.
	Expected *Expected `json:"expected,omitempty"`
	// Error is why the run failed, without secrets; empty for one that did not.
	Error string `json:"error,omitempty"`
	// ErrorKind is the kind of that error, as in exit codes: "limited", "denied" …
	ErrorKind string `json:"errorKind,omitempty"`
	// Warnings need attention although the run was done, one sentence each.
	Warnings []string `json:"warnings,omitempty"`
	// Checks are what was verified, one sentence each.
	Checks []string `json:"checks,omitempty"`
}

// Phase is how long a phase took.
type Phase struct {
	Name string `json:"name"`
	// Start is when it began; zero in reports of versions that did not record it.
	Start   time.Time `json:"start,omitzero"`
	Seconds float64   `json:"seconds"`
	// OverlapSeconds is the part of Seconds in which a phase that began earlier was also running.
	OverlapSeconds float64 `json:"overlapSeconds,omitempty"`
	// Share is of the run's total, 0 to 1, and of the phase's own time: all shares add up to 1.
	Share   float64       `json:"share"`
	Outcome phase.Outcome `json:"outcome"`
	// Attempt is 2 for a phase of the second attempt at the hold, and so on; 0 for the first.
	Attempt int    `json:"attempt,omitempty"`
	Steps   []Step `json:"steps,omitempty"`
}

// Step is how long a step of a phase took.
type Step struct {
	Name string `json:"name"`
	// Start is when it began; zero in reports of versions that did not record it.
	Start   time.Time     `json:"start,omitzero"`
	Seconds float64       `json:"seconds"`
	Outcome phase.Outcome `json:"outcome,omitempty"`
	Parts   []phase.Part  `json:"parts,omitempty"`
}

// Hold is how long the live cluster was held, and the cut within it. The figures are for the last attempt, whose
// snapshots were kept.
type Hold struct {
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	// CutStart and CutSeconds are from the first CreateSnapshots request to the last response.
	CutStart   time.Time `json:"cutStart"`
	CutSeconds float64   `json:"cutSeconds"`
	// SkewSeconds is between the first and the last snapshot's own start times, as EC2 reports them.
	SkewSeconds float64 `json:"skewSeconds"`
	// Attempts is how often the cluster was held; more than 1 if a set of snapshots was discarded.
	Attempts int `json:"attempts"`
	// Failed are the attempts whose hold failed, and whose snapshots were discarded.
	Failed []phase.Attempt `json:"failed,omitempty"`
	Parts  []phase.Part    `json:"parts,omitempty"`
	// Stores are the parts on each store, in the order of the topology.
	Stores []phase.StoreParts `json:"stores,omitempty"`
}

// VolumeSettings are those with which restored volumes were created, or of a backup's source. Zero is the type's
// default.
type VolumeSettings struct {
	Type          string `json:"type"`
	SizeGiB       int64  `json:"sizeGiB,omitempty"` // of the largest; 0 in reports of older versions
	IOPS          int64  `json:"iops,omitempty"`
	ThroughputMiB int64  `json:"throughputMiB,omitempty"` // MiB/s
	// FastRestore and InitializationMiB (MiB/s per volume) are only for a restore.
	FastRestore       bool  `json:"fastRestore,omitempty"`
	InitializationMiB int64 `json:"initializationMiB,omitempty"`
}

// Text is "gp3, 7000 IOPS, 400 MiB/s", without the type's defaults; "" for nil.
func (v *VolumeSettings) Text() string {
	if v == nil {
		return ""
	}
	line := orAbsent(v.Type)
	if v.IOPS > 0 {
		line += fmt.Sprintf(", %d IOPS", v.IOPS)
	}
	if v.ThroughputMiB > 0 {
		line += fmt.Sprintf(", %d MiB/s", v.ThroughputMiB)
	}
	if v.FastRestore {
		line += ", with fast snapshot restore"
	}
	if v.InitializationMiB > 0 {
		line += fmt.Sprintf(", filled at %d MiB/s", v.InitializationMiB)
	}
	return line
}

// Expected is how long the run should have taken.
type Expected struct {
	// Model is the source of the figures: "published tables", or "12 runs of this storage".
	Model   string  `json:"model"`
	Seconds float64 `json:"seconds"`
	// LowSeconds and HighSeconds are the expected range.
	LowSeconds  float64         `json:"lowSeconds"`
	HighSeconds float64         `json:"highSeconds"`
	Phases      []ExpectedPhase `json:"phases"`
	// NotAWS means that the run had another EC2, which the model knows nothing of: the times cannot be compared.
	NotAWS bool `json:"notAWS,omitempty"`
}

// Text is the time, its range, and its source.
func (e *Expected) Text() string {
	text := fmt.Sprintf("%s (%s to %s), by %s", Roughly(e.Seconds), Roughly(e.LowSeconds), Roughly(e.HighSeconds),
		Name(e.Model))
	if e.NotAWS {
		text += ", a model of AWS: not comparable here"
	}
	return text
}

// ExpectedPhase is how long a phase should have taken.
type ExpectedPhase struct {
	Name        string  `json:"name"`
	Seconds     float64 `json:"seconds"`
	LowSeconds  float64 `json:"lowSeconds"`
	HighSeconds float64 `json:"highSeconds"`
}

// SettingsOf are the settings of the largest volume, which has the data. Nil if there is none.
func SettingsOf(volumes []cluster.VolumeSpec) *VolumeSettings {
	if len(volumes) == 0 {
		return nil
	}
	v := slices.MaxFunc(volumes, func(a, b cluster.VolumeSpec) int { return cmp.Compare(a.SizeGiB, b.SizeGiB) })
	return &VolumeSettings{Type: v.Type, SizeGiB: v.SizeGiB, IOPS: v.IOPS, ThroughputMiB: v.ThroughputMiB}
}

// New makes the report of a run from its header and the engine's timings. The header's Processes are those before this
// one.
func New(h Header, timings phase.Timings) *Report {
	r := &Report{APIVersion: APIVersion, Kind: Kind, Header: h, TotalSeconds: timings.Total(), Phases: []Phase{}}
	if !h.Started.IsZero() && !h.Finished.IsZero() {
		r.TotalSeconds = max(r.TotalSeconds, h.Finished.Sub(h.Started).Seconds()+adopted(timings, h.Processes))
	}
	r.addProcess(timings)
	for _, t := range timings {
		r.Phases = append(r.Phases, Phase{
			Name: t.Phase, Start: t.Start, Seconds: t.Seconds, OverlapSeconds: t.OverlapSeconds,
			Share:   r.share(t.Seconds - t.OverlapSeconds),
			Outcome: t.Outcome, Attempt: t.Attempt, Steps: steps(t.Steps),
		})
	}
	return r
}

// Seconds is the total time of all phases of that name, and whether any ran.
func (r *Report) Seconds(name string) (seconds float64, ran bool) {
	for _, p := range r.Phases {
		if p.Name == name {
			seconds, ran = seconds+p.Seconds, true
		}
	}
	return seconds, ran
}

// OwnSeconds is Seconds without the time in which earlier phases were also running: what they add to the run.
func (r *Report) OwnSeconds(name string) (seconds float64, ran bool) {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			seconds, ran = seconds+r.Phases[i].Own(), true
		}
	}
	return seconds, ran
}

// Overlaps reports whether phases overlapped for long enough to be visible in a table.
func (r *Report) Overlaps() bool {
	return slices.ContainsFunc(r.Phases, func(p Phase) bool { return p.overlaps() })
}

func (r *Report) share(seconds float64) float64 {
	if r.TotalSeconds <= 0 {
		return 0
	}
	return seconds / r.TotalSeconds
}

func steps(timings []phase.StepTiming) []Step {
	var out []Step
	for _, t := range timings {
		out = append(out, Step{Name: t.Name, Start: t.Start, Seconds: t.Seconds, Outcome: t.Outcome, Parts: t.Parts})
	}
	return out
}
