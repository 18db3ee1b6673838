package journal

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/phase"
)

// BackupFacts is what a backup did to its cluster, and what it requested.
type BackupFacts struct {
	// Held reports that the cluster may be held: StepHold began, and neither its undo nor the end of StepRelease or
	// StepReleaseAgain followed. After a ResultStillHeld, the end of StepRelease releases nothing, but its undo does.
	Held bool
	// Pausing is what it last paused and did not release, in the sense of Held.
	Pausing Paused
	// Paused is everything that it ever paused, even if released since.
	Paused Paused
	// Unclear reports that a record of what it paused cannot be read.
	Unclear bool
	// StillHeld reports that there was a ResultStillHeld.
	StillHeld bool
	// Holds are its attempts to hold the cluster, in order.
	Holds []Hold
	// Attempts is how often StepConnect began, with which an attempt at the hold begins.
	Attempts int
	// EarlyApply is what the stores were set to that it turned early apply off on, by the first IntentEarlyApply that
	// names the store; nil since ResultEarlyApplyBack.
	EarlyApply []earlyapply.Setting
	// Cuts are its requests for snapshots, in order.
	Cuts []Cut
	// ProvenOf is PD's id of the cluster whose cut it has proven, by the last end of StepRelease that names one; else
	// 0.
	ProvenOf uint64
	// Sealed means that StepSeal ended once.
	Sealed bool
}

// Paused is what was paused in PD, by name.
type Paused struct{ Schedulers, Limits []string }

// Hold is one attempt to hold the cluster.
type Hold struct {
	Began time.Time // of StepHold
	// Leases is how long it may last, and LeasesAt when that was recorded; zero if it was not, or cannot be read.
	Leases   Leases
	LeasesAt time.Time
}

// Cut is one IntentCreateSnapshots.
type Cut struct {
	Asked time.Time
	// Ended is when the step ended or failed; Asked if not recorded.
	Ended time.Time
	// Requests is the intent's data.
	Requests json.RawMessage
	// Undone reports that StepCut was undone since: the snapshots are deleted.
	Undone bool
}

// followHold keeps what the backup holds.
func (r *reader) followHold(record *phase.Record) {
	f := &r.Backup
	switch record.Type {
	case phase.RecordBegin:
		switch record.Step {
		case StepConnect:
			f.Attempts++
		case StepHold:
			f.Held = true
			f.Holds = append(f.Holds, Hold{Began: record.Time})
		}
	case phase.RecordIntent:
		r.paused(record)
	case phase.RecordResult:
		switch record.Name {
		case ResultStillHeld:
			f.StillHeld = true
		case ResultEarlyApplyBack:
			f.EarlyApply = nil
		}
	case phase.RecordDone:
		if record.Step == StepRelease && !f.StillHeld || record.Step == StepReleaseAgain {
			f.Held, f.Pausing = false, Paused{}
		}
	case phase.RecordUndone:
		if record.Step == StepHold || record.Step == StepRelease && f.StillHeld {
			f.Held, f.Pausing = false, Paused{}
		}
	default: // irrelevant to a hold
	}
}

// paused keeps what the backup is about to pause, and for how long.
func (r *reader) paused(record *phase.Record) {
	f := &r.Backup
	switch record.Name {
	case IntentSchedulers:
		f.pause(&f.Pausing.Schedulers, &f.Paused.Schedulers, record.Data)
	case IntentLimits:
		f.pause(&f.Pausing.Limits, &f.Paused.Limits, record.Data)
	case IntentLeases:
		var l Leases
		if json.Unmarshal(record.Data, &l) != nil || l.LeaseSeconds <= 0 || l.MaxHoldSeconds <= 0 {
			return
		}
		if len(f.Holds) == 0 {
			f.Holds = append(f.Holds, Hold{Began: record.Time})
		}
		last := &f.Holds[len(f.Holds)-1]
		last.Leases, last.LeasesAt = l, record.Time
	case IntentEarlyApply:
		var off []earlyapply.Setting
		if json.Unmarshal(record.Data, &off) == nil {
			f.EarlyApply = earlyapply.Add(f.EarlyApply, off)
		}
	}
}

// pause keeps names that are paused now, and among all.
func (f *BackupFacts) pause(now, all *[]string, data json.RawMessage) {
	var names []string
	if json.Unmarshal(data, &names) != nil {
		f.Unclear = true // what cannot be read expires by itself
	}
	*now, *all = names, append(*all, names...)
}

// followCut keeps what the backup cut, and how far that came.
func (r *reader) followCut(record *phase.Record) {
	f := &r.Backup
	last := len(f.Cuts) - 1
	switch {
	case record.Type == phase.RecordIntent && record.Name == IntentCreateSnapshots:
		r.cutStep = record.Step
		f.Cuts = append(f.Cuts, Cut{Asked: record.Time, Ended: record.Time, Requests: record.Data})
		return
	case record.Type == phase.RecordUndone && record.Step == StepCut:
		for i := range f.Cuts {
			f.Cuts[i].Undone = true
		}
	case record.Type == phase.RecordDone && record.Step == StepRelease:
		var proof struct {
			Source *struct {
				Topology struct {
					ClusterID uint64 `json:"clusterID"`
				} `json:"topology"`
			} `json:"source"`
		}
		if json.Unmarshal(record.Data, &proof) == nil && proof.Source != nil {
			f.ProvenOf = proof.Source.Topology.ClusterID
		}
	case record.Type == phase.RecordDone && record.Step == StepSeal:
		f.Sealed = true
	default: // irrelevant to a cut
	}
	ended := record.Type == phase.RecordDone || record.Type == phase.RecordFailed
	if last >= 0 && ended && r.cutStep != "" && record.Step == r.cutStep {
		f.Cuts[last].Ended = record.Time
	}
}
