package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// logWords describes a journal's records, in order, for people.
type logWords struct {
	at        time.Time                     // of the record that is described
	stores    map[cluster.SnapshotID]string // the store that a snapshot's volume is for
	asked     map[cluster.VolumeID]volumeAsked
	holding   time.Time // since when the cluster is held; zero if it is not
	stillHeld bool      // the release that is under way had to leave PD held
	processes int
}

// volumeAsked is a volume that EC2 makes, and has not shown as available yet.
type volumeAsked struct {
	what string
	at   time.Time
}

// of describes the record: a line, or one for each volume.
func (l *logWords) of(r *phase.Record) []string {
	l.at = r.Time
	switch {
	case r.Type == phase.RecordResult && r.Name == journal.ResultAvailable:
		return l.available(r)
	case r.Type == phase.RecordIntent && r.Name == journal.IntentLeases:
		l.holding = l.at
	case r.Type == phase.RecordResult && r.Name == journal.ResultStillHeld:
		l.stillHeld = true
	case r.Type == phase.RecordDone && r.Step == journal.StepRelease,
		r.Type == phase.RecordDone && r.Step == journal.StepReleaseAgain,
		r.Type == phase.RecordUndone && r.Step == journal.StepHold:
		return append(l.released(), l.line(r))
	}
	return []string{l.line(r)}
}

// released reports how long the cluster was held, once.
func (l *logWords) released() []string {
	since, left := l.holding, l.stillHeld
	l.stillHeld = false
	if since.IsZero() || left {
		return nil
	}
	l.holding = time.Time{}
	return []string{"the cluster is released, after a hold of " + report.Duration(l.at.Sub(since).Seconds())}
}

func (l *logWords) line(r *phase.Record) string {
	switch r.Type {
	case phase.RecordIntent, phase.RecordResult:
		if text := l.effect(r); text != "" {
			return text
		}
		return "step " + r.Step + ": " + strings.ReplaceAll(r.Name, "-", " ")
	case phase.RecordRun:
		return l.begins(r)
	case phase.RecordResumed:
		l.processes++
		return fmt.Sprintf("resumed by process %d", l.processes)
	case phase.RecordRetryGroup:
		return "starting over" + names(r.Data, ": ")
	case phase.RecordEnd:
		if r.Error != "" {
			return "the run failed: " + r.Error
		}
		return "the run has ended"
	default:
		return stepWords(r)
	}
}

func stepWords(r *phase.Record) string {
	text, ok := map[phase.RecordType]string{
		phase.RecordBegin:    "begins",
		phase.RecordDone:     "done in " + report.Duration(r.Seconds),
		phase.RecordFailed:   "failed",
		phase.RecordUndo:     "is being undone",
		phase.RecordUndone:   "undone",
		phase.RecordUndoFail: "could not be undone",
	}[r.Type]
	if !ok {
		text = string(r.Type)
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return "step " + r.Step + ": " + text
}

func (l *logWords) begins(r *phase.Record) string {
	l.processes = 1
	about, err := journal.ReadAbout(r.Run, *r)
	if err != nil {
		return "run " + string(r.Run)
	}
	return fmt.Sprintf("run %s: %s of %s, backup %s", r.Run, about.Operation, about.Cluster, about.Backup)
}

// effect returns "" for names without words of their own, and for data that cannot be read.
func (l *logWords) effect(r *phase.Record) string {
	render, ok := effects()[r.Name]
	if !ok {
		return ""
	}
	return render(l, r.Data)
}

// effects has words for each name of an intent or a result, except for those that of has.
func effects() map[string]func(*logWords, json.RawMessage) string {
	return map[string]func(*logWords, json.RawMessage) string{
		journal.IntentLeases: worded(func(d journal.Leases) string {
			return fmt.Sprintf("asks for leases of %s, for a hold of at most %s",
				report.Duration(d.LeaseSeconds), report.Duration(d.MaxHoldSeconds))
		}),
		journal.IntentSchedulers:       listed("pauses schedulers: "),
		journal.IntentLimits:           listed("lowers limits: "),
		journal.IntentEarlyApply:       fixed("turns early apply off"),
		journal.ResultEarlyApplyBack:   fixed("early apply is as it was before"),
		journal.IntentCreateSnapshots:  (*logWords).askedForSnapshots,
		journal.ResultSnapshots:        listed("EC2 started snapshots: "),
		journal.ResultBackupTS:         worded(func(d journal.BackupTS) string { return "backup ts " + d.TS.String() }),
		journal.ResultStillHeld:        worded(stillHeld),
		journal.IntentCreateVolumes:    (*logWords).askedForVolumes,
		journal.ResultVolume:           (*logWords).volume,
		journal.IntentFastRestore:      worded(fastWords),
		journal.ResultFastRestoreEnded: fixed("fast snapshot restore is disabled again"),
		journal.IntentLeaveRecovery:    fixed("takes PD out of recovery mode"),
		journal.ResultLeftRecovery:     fixed("PD is out of recovery mode"),
		journal.ResultServes:           fixed("the cluster serves"),
		journal.ResultAhead:            fixed("knows which replicas are ahead of their raft logs"),
		journal.ResultExpected: worded(func(d report.Expected) string {
			return "expected duration: " + d.Text()
		}),
		journal.IntentPacks: fixed("begins to write packs"),
		journal.ResultSegment: worded(func(d struct{ Volume int }) string {
			return fmt.Sprintf("stored one more segment of volume %d", d.Volume+1)
		}),
		journal.IntentWriteSnapshots: worded(func(d struct {
			Archive   string
			Snapshots int
		}) string {
			return fmt.Sprintf("writes %d snapshots from archive %s", d.Snapshots, d.Archive)
		}),
		journal.ResultPut: worded(func(d journal.Put) string {
			return fmt.Sprintf("snapshot %s has the first %d segments of its volume", d.Snapshot, d.Segments)
		}),
		journal.IntentShare:         listed("shares snapshots with the target's account: "),
		journal.IntentCopySnapshots: listed("asks EC2 for copies of snapshots: "),
		journal.ResultCopy: worded(func(d journal.CopiedSnapshot) string {
			return fmt.Sprintf("EC2 copies snapshot %s to %s", d.Snapshot, d.Copy)
		}),
		journal.ResultCopied: worded(func(d journal.CopiedSnapshot) string {
			return fmt.Sprintf("EC2 has completed copy %s of snapshot %s", d.Copy, d.Snapshot)
		}),
		journal.IntentCage: worded(func(d journal.Cage) string { return "makes namespace " + d.Namespace }),
		journal.ResultCage: worded(func(d journal.Cage) string {
			return "namespace " + d.Namespace + " has UID " + d.UID
		}),
		journal.IntentTarget: worded(func(d journal.DrillTarget) string {
			return fmt.Sprintf("restores into %s by run %s", d.Cluster, d.Run)
		}),
		journal.ResultChecks: worded(func(d struct{ Outcome string }) string { return "the checks: " + d.Outcome }),
	}
}

func fixed(text string) func(*logWords, json.RawMessage) string {
	return func(*logWords, json.RawMessage) string { return text }
}

// listed prints the text and the data's names.
func listed(text string) func(*logWords, json.RawMessage) string {
	return func(_ *logWords, data json.RawMessage) string { return names(data, text) }
}

func worded[T any](text func(T) string) func(*logWords, json.RawMessage) string {
	return func(_ *logWords, data json.RawMessage) string {
		var d T
		if json.Unmarshal(data, &d) != nil {
			return ""
		}
		return text(d)
	}
}

// names returns the text and the data's names; "" for other data.
func names(data json.RawMessage, text string) string {
	var all []string
	if json.Unmarshal(data, &all) != nil {
		return ""
	}
	if len(all) == 0 {
		return text + "none"
	}
	return text + strings.Join(all, ", ")
}

func stillHeld(why string) string { return "PD is still held: " + why }

func fastWords(d journal.FastRestore) string {
	return fmt.Sprintf("enables fast snapshot restore of %d snapshots in %d zones", len(d.Snapshots), len(d.Zones))
}

func (l *logWords) askedForSnapshots(data json.RawMessage) string {
	var stores map[cluster.StoreID]struct{ Volumes []json.RawMessage }
	if json.Unmarshal(data, &stores) != nil {
		return ""
	}
	n := 0
	for _, s := range stores {
		n += len(s.Volumes)
	}
	return fmt.Sprintf("asks EC2 for %d snapshots on %d instances", n, len(stores))
}

func (l *logWords) askedForVolumes(data json.RawMessage) string {
	var volumes []struct {
		Store    cluster.StoreID    `json:"store"`
		Snapshot cluster.SnapshotID `json:"snapshot"`
	}
	if json.Unmarshal(data, &volumes) != nil {
		return ""
	}
	l.stores = map[cluster.SnapshotID]string{}
	for _, v := range volumes {
		l.stores[v.Snapshot] = "store " + v.Store.String()
	}
	return fmt.Sprintf("asks EC2 for %d volumes", len(volumes))
}

// volume remembers when it was asked for. A process that resumes the run asks again for the same volume.
func (l *logWords) volume(data json.RawMessage) string {
	var v journal.Volume
	if json.Unmarshal(data, &v) != nil {
		return ""
	}
	what := fmt.Sprintf("volume %s from %s", v.Volume, v.Snapshot)
	if of := l.stores[v.Snapshot]; of != "" {
		what = of + ": " + what
	}
	if l.asked == nil {
		l.asked = map[cluster.VolumeID]volumeAsked{}
	}
	if _, known := l.asked[v.Volume]; !known {
		l.asked[v.Volume] = volumeAsked{what: what, at: l.at}
	}
	return what + ", which EC2 is making"
}

// available reports how long EC2 took to make each volume, once per volume.
func (l *logWords) available(r *phase.Record) []string {
	var volumes []cluster.VolumeID
	if json.Unmarshal(r.Data, &volumes) != nil {
		return []string{l.line(r)}
	}
	var lines []string
	for _, id := range volumes {
		asked, ok := l.asked[id]
		if !ok || asked.at.IsZero() {
			continue
		}
		lines = append(lines,
			fmt.Sprintf("%s, available after %s", asked.what, report.Duration(l.at.Sub(asked.at).Seconds())))
		l.asked[id] = volumeAsked{}
	}
	return lines
}
