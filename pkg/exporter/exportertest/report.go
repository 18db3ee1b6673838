package exportertest

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Backup is the report of a backup that was done in so many seconds.
func Backup(id cluster.BackupID, of cluster.Name, run cluster.RunID, began time.Time, total, held float64) *report.Report {
	timings := laid(began,
		phased(report.CreateTask, step("preflight", 2.3), step("lock", .3), step("connect", .3)),
		phased(report.PauseScheduling, step("hold", .4)), phased(report.PauseGC, step("hold-gc", .1)), phased(report.GetBackupTS, step("backup-ts", held-1.5)),
		phased(report.VolumeSnapshots, step("cut", .8), step("release", .2), step("record", .6), step("wait", total-held-4.9)),
		phased("seal", step("seal", .4)))
	return report.New(report.Header{
		Operation: report.Backup, Run: run, Backup: id, Cluster: of, Outcome: phase.Done, Started: began, Finished: began.Add(seconds(timings.Total())),
		TiKVs: 3, Volumes: 6, DataBytes: 3 << 40, DataPerVolumeBytes: 1 << 39,
		EarlyApply: &report.EarlyApply{State: "excluded"},
		Hold: &report.Hold{
			Start: began.Add(3 * time.Second), Seconds: held, CutStart: began.Add(seconds(1.5 + held)), CutSeconds: .8, SkewSeconds: .3, Attempts: 1,
			Stores: stores("connect", "suspend imports", "pause admin commands", "wait apply", "cut", "release"),
		},
		Checks: []string{"6 of 6 snapshots completed"},
	}, timings)
}

// Restore is the report of a restore that was done.
func Restore(id cluster.BackupID, to cluster.Name, run cluster.RunID, began time.Time) *report.Report {
	timings := laid(began,
		phased(report.CreateCluster, step("load", .3), step("preflight", 1.2), step("create-cluster", 50)),
		phased(report.RestoreVolumes, step("create-volumes", 3.2), step("bind-volumes", 3.2)),
		phased(report.StartTiKV, step("await-stores", 174)), phased(report.ResolveData, step("recover", 61), step("flashback", 430)),
		phased(report.StartTiDB, step("await-tidb", 58)))
	return report.New(report.Header{
		Operation: report.Restore, Run: run, Backup: id, Cluster: to, Outcome: phase.Done, Started: began, Finished: began.Add(seconds(timings.Total())),
		TiKVs: 3, Volumes: 6, VolumeSettings: &report.VolumeSettings{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}, Warnings: []string{"TiFlash is not in the backup"},
	}, timings)
}

// Archive is the report of an archive that was done, and of another operation beside the cluster if it is changed to that.
func Archive(id cluster.BackupID, of cluster.Name, run cluster.RunID, began time.Time) *report.Report {
	timings := laid(began, phased("read and store", step("store", 300)), phased("commit", step("commit", 1)))
	r := report.New(report.Header{
		Operation: report.Archive, Run: run, Backup: id, Cluster: of, Outcome: phase.Done, Started: began, Finished: began.Add(seconds(timings.Total())),
		TiKVs: 3, Volumes: 6,
	}, timings)
	usd := 1.5
	r.Archived = &report.Archived{Archive: string(id) + "-1", StoredBytes: 64 << 30, RequestsUSD: &usd}
	return r
}

// Drill is the report of a drill that passed.
func Drill(id cluster.BackupID, of cluster.Name, run cluster.RunID, began time.Time) *report.Report {
	timings := laid(began, phased("make cage", step("make-cage", 1)), phased("restore", step("restore", 700)))
	return report.New(report.Header{
		Operation: report.Drill, Run: run, Backup: id, Cluster: of, Outcome: phase.Done, Started: began, Finished: began.Add(seconds(timings.Total())),
		TiKVs: 3, Volumes: 6,
	}, timings)
}

// Failed is the report of a backup that held its cluster in vain.
func Failed(of cluster.Name, run cluster.RunID, began time.Time) *report.Report {
	timings := laid(began, phased(report.CreateTask, step("preflight", 2)), phased(report.PauseScheduling, step("hold", .3)), phased(report.VolumeSnapshots, step("cut", 4.2)))
	last := &timings[len(timings)-1]
	last.Outcome, last.Steps[0].Outcome = phase.Failed, phase.Failed
	return report.New(report.Header{
		Operation: report.Backup, Run: run, Backup: "sandbox-1", Cluster: of, Outcome: phase.Failed, Started: began, Finished: began.Add(seconds(timings.Total() + 2)),
		TiKVs: 3, Volumes: 3, Error: "cut: the lease of store 4 ended while the volumes were cut", ErrorKind: "unready",
	}, timings)
}

func phased(name string, steps ...phase.StepTiming) phase.Timing {
	t := phase.Timing{Phase: name, Outcome: phase.Done, Steps: steps}
	for _, s := range steps {
		t.Seconds += s.Seconds
	}
	return t
}

func step(name string, s float64) phase.StepTiming {
	return phase.StepTiming{Name: name, Seconds: s, Outcome: phase.Done}
}

// laid puts phases one after another.
func laid(at time.Time, phases ...phase.Timing) phase.Timings {
	for i := range phases {
		phases[i].Start = at
		for j := range phases[i].Steps {
			phases[i].Steps[j].Start = at
			at = at.Add(seconds(phases[i].Steps[j].Seconds))
		}
	}
	return phases
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func stores(parts ...string) []phase.StoreParts {
	var out []phase.StoreParts
	for i := range 3 {
		s := phase.StoreParts{Store: cluster.StoreID(i + 1), Pod: fmt.Sprint("prod-tikv-", i)}
		for j, name := range parts {
			s.Parts = append(s.Parts, phase.Part{Name: name, Seconds: 0.02*float64(j+1) + float64((i*7919+j*131)%97)/400})
		}
		out = append(out, s)
	}
	return out
}
