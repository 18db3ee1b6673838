package journal

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Facts is what a run's journal records beyond the progress of its steps, which is in phase.History. Facts are neutral:
// the caller decides what follows from them.
type Facts struct {
	Began time.Time // of the first record; zero of a journal without any
	Last  time.Time // of the last record
	// Ended means that the last record is the end, with Error unless the run succeeded: a record after an end is of a
	// process that continues the run.
	Ended bool
	Error string
	// Locked reports that a process passed StepLock, before which nothing is changed.
	Locked bool
	// AskedEC2 reports that it was about to create something in EC2.
	AskedEC2 bool
	// Expected is the data of the first ResultExpected: how long the run should take; nil if nothing announced it.
	Expected json.RawMessage

	Backup  BackupFacts
	Restore RestoreFacts
	Resolve ResolveFacts
	Copy    CopyFacts
	Archive []ArchiveProcess // in order
	Drill   DrillFacts
}

// RestoreFacts is what a restore changed in EC2 and Kubernetes.
type RestoreFacts struct {
	// Target reports that it may have made something in Kubernetes: StepCreateCluster, StepBindVolumes or
	// StepFillVolumes began once.
	Target bool
	// Bound reports that persistent volumes may name its volumes: StepBindVolumes or StepHandOver began once.
	Bound bool
	// Made reports that the run made its target, and Given which one it was given instead. The end of StepCreateCluster
	// sets them, and its undo unsets both. Versions that recorded neither leave both unset.
	Made  bool
	Given GivenTarget
	// Fast is the last IntentFastRestore, without pairs since ResultFastRestoreEnded; nil if there was neither.
	Fast *FastRestore
	// FastUnclear is why an IntentFastRestore cannot be read.
	FastUnclear error
	// SnapshotsEpoch is of the first IntentWriteSnapshots since the run began from scratch; 0 if there was none. Put is
	// how many segments are on each snapshot, by ResultPut.
	SnapshotsEpoch int64
	Put            map[cluster.SnapshotID]int
	// Fill is the first IntentFillVolumes since the run began from scratch; nil if there was none.
	Fill *FillVolumes
	// VolumesEpoch is of the first IntentCreateVolumes since the run began from scratch; 0 if there was none.
	VolumesEpoch int64
	// Volumes has the last volume of each snapshot, by ResultVolume, since the run began from scratch.
	Volumes map[cluster.SnapshotID]cluster.VolumeID
	// Restarts is how often it began from scratch.
	Restarts int
}

// ResolveFacts is how far the data of a restore or resolve came.
type ResolveFacts struct {
	// LeftRecovery is the last IntentLeaveRecovery, or ResultLeftRecovery of older versions, as far as it is readable;
	// nil before it, and again when the run begins from scratch.
	LeftRecovery *LeftRecovery
	// Served reports that the volumes may hold live data: StepAwaitLeaders ended once, or there was a ResultServes.
	Served bool
}

// HasLeft reports whether the run began to take the cluster of this id of PD's out of recovery mode.
func (f *ResolveFacts) HasLeft(id uint64) bool {
	return f.LeftRecovery != nil && id != 0 && f.LeftRecovery.ClusterID == id
}

// Regions are the region counts that the run recorded when its data was resolved; zero if it did not.
func (f *ResolveFacts) Regions() ResolvedRegions {
	if f.LeftRecovery == nil {
		return ResolvedRegions{}
	}
	return f.LeftRecovery.Regions
}

// ReadFacts reads the facts from a journal's records. It omits unreadable data; where that matters, a fact shows it.
func ReadFacts(records []phase.Record) Facts {
	var r reader
	for i := range records {
		r.follow(&records[i])
	}
	if n := len(records); n > 0 {
		r.Began, r.Last = records[0].Time, records[n-1].Time
		if last := records[n-1]; last.Type == phase.RecordEnd {
			r.Ended, r.Error = true, last.Error
		}
	}
	return r.Facts
}

// reader is what is known behind a record.
type reader struct {
	Facts
	cutStep string // the step of the last IntentCreateSnapshots
}

// follow processes one more record.
func (r *reader) follow(record *phase.Record) {
	switch {
	case record.Type == phase.RecordDone && record.Step == StepLock:
		r.Locked = true
	case record.Type == phase.RecordIntent:
		r.AskedEC2 = r.AskedEC2 ||
			slices.Contains([]string{
				IntentCreateSnapshots, IntentWriteSnapshots, IntentCreateVolumes, IntentFastRestore,
				IntentCopySnapshots,
			}, record.Name)
	case record.Type == phase.RecordResult && record.Name == ResultExpected && r.Expected == nil:
		r.Expected = record.Data
	default: // of a step's own
	}
	r.followHold(record)
	r.followCut(record)
	r.followRestore(record)
	r.followResolve(record)
	r.followCopy(record)
	r.followArchive(record)
	r.followDrill(record)
}

// followRestore keeps Facts.Restore.
func (r *reader) followRestore(record *phase.Record) {
	f := &r.Restore
	switch record.Type {
	case phase.RecordBegin:
		f.Target = f.Target || record.Step == StepCreateCluster || record.Step == StepBindVolumes ||
			record.Step == StepFillVolumes
		f.Bound = f.Bound || record.Step == StepBindVolumes || record.Step == StepHandOver
	case phase.RecordDone:
		if record.Step == StepCreateCluster {
			f.Given = GivenTarget{}
			f.Made = json.Unmarshal(record.Data, &f.Given) == nil && f.Given.UID == ""
		}
	case phase.RecordUndone:
		if record.Step == StepCreateCluster {
			f.Made, f.Given = false, GivenTarget{}
		}
	case phase.RecordIntent:
		r.intended(record)
	case phase.RecordResult:
		f.follow(record)
	case phase.RecordRetryGroup:
		f.VolumesEpoch, f.SnapshotsEpoch, f.Put, f.Volumes, f.Fill = 0, 0, nil, nil, nil
		f.Restarts++
	default: // irrelevant to a restore
	}
}

// follow keeps what became of what a restore made at EC2.
func (f *RestoreFacts) follow(record *phase.Record) {
	switch record.Name {
	case ResultFastRestoreEnded:
		f.Fast = &FastRestore{}
	case ResultPut:
		var p Put
		if json.Unmarshal(record.Data, &p) == nil { // otherwise they are put again
			if f.Put == nil {
				f.Put = map[cluster.SnapshotID]int{}
			}
			f.Put[p.Snapshot] = p.Segments
		}
	case ResultVolume:
		var v Volume
		if json.Unmarshal(record.Data, &v) == nil { // otherwise its token is asked for again
			if f.Volumes == nil {
				f.Volumes = map[cluster.SnapshotID]cluster.VolumeID{}
			}
			f.Volumes[v.Snapshot] = v.Volume
		}
	}
}

// intended keeps what a restore was about to make at EC2.
func (r *reader) intended(record *phase.Record) {
	f := &r.Restore
	switch {
	case record.Name == IntentWriteSnapshots && f.SnapshotsEpoch == 0:
		f.SnapshotsEpoch = record.Epoch
	case record.Name == IntentCreateVolumes && f.VolumesEpoch == 0:
		f.VolumesEpoch = record.Epoch
	case record.Name == IntentFillVolumes && f.Fill == nil:
		f.Fill = &FillVolumes{}
		_ = json.Unmarshal(record.Data, f.Fill) // then the zones are chosen again
	case record.Name == IntentFastRestore:
		f.Fast = &FastRestore{}
		if err := json.Unmarshal(record.Data, f.Fast); err != nil && f.FastUnclear == nil {
			f.FastUnclear = err
		}
	default: // of a backup, or of a resolve
	}
}

// followResolve keeps Facts.Resolve.
func (r *reader) followResolve(record *phase.Record) {
	f := &r.Resolve
	switch {
	case record.Type == phase.RecordIntent && record.Name == IntentLeaveRecovery,
		record.Type == phase.RecordResult && record.Name == ResultLeftRecovery:
		f.LeftRecovery = &LeftRecovery{}
		_ = json.Unmarshal(record.Data, f.LeftRecovery) // then the resolver's progress shows it
	case record.Type == phase.RecordRetryGroup:
		f.LeftRecovery = nil
	case record.Type == phase.RecordDone && record.Step == StepAwaitLeaders,
		record.Type == phase.RecordResult && record.Name == ResultServes:
		f.Served = true
	default: // irrelevant to the data
	}
}
