package reporttest

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

var began = time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)

// plan lays phases out one after another.
func plan(phases ...phase.Timing) phase.Timings {
	at := began
	for i := range phases {
		phases[i].Start = at
		inner := at
		for j := range phases[i].Steps {
			phases[i].Steps[j].Start = inner
			inner = inner.Add(seconds(phases[i].Steps[j].Seconds))
		}
		at = at.Add(seconds(phases[i].Seconds))
		if phases[i].Outcome == "" {
			phases[i].Outcome = phase.Done
		}
	}
	return phases
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func step(name string, s float64) phase.StepTiming {
	return phase.StepTiming{Name: name, Seconds: s, Outcome: phase.Done}
}

func storeParts(n int, names ...string) []phase.StoreParts {
	var out []phase.StoreParts
	for i := range n {
		s := phase.StoreParts{Store: cluster.StoreID(i + 1), Pod: fmt.Sprint("prod-tikv-", i)}
		for j, name := range names {
			s.Parts = append(s.Parts, phase.Part{Name: name, Seconds: 0.02*float64(j+1) + float64((i*7919+j*131)%97)/400})
		}
		out = append(out, s)
	}
	return out
}

// Backup is the report of a backup that was done of so many stores of one volume each.
func Backup(stores int) *report.Report {
	timings := plan(
		phase.Timing{Phase: report.CreateTask, Seconds: 2.9, Steps: []phase.StepTiming{step("preflight", 2.3), step("lock", .3), step("connect", .3)}},
		phase.Timing{Phase: report.PauseScheduling, Seconds: .25, Steps: []phase.StepTiming{step("hold", .25)}},
		phase.Timing{Phase: report.PauseGC, Seconds: .01, Steps: []phase.StepTiming{step("hold-gc", .01)}},
		phase.Timing{Phase: report.GetBackupTS, Seconds: 1.8, Steps: []phase.StepTiming{step("settle", 1.2), step("backup-ts", .6)}},
		phase.Timing{Phase: report.VolumeSnapshots, Seconds: 856.4, Steps: []phase.StepTiming{step("cut", 2.04), step("release", .4), step("record", .6), step("await-snapshots", 853)}},
		phase.Timing{Phase: "seal", Seconds: .42, Steps: []phase.StepTiming{step("seal", .42)}},
	)
	return report.New(report.Header{
		Operation: report.Backup, Run: "20260822t100000-7f3a11bc", Backup: "nightly-2026-08-22", Cluster: cluster.Name{Namespace: "prod", Name: "orders"},
		Outcome: phase.Done, Started: began, Finished: began.Add(seconds(862.5)), TiKVs: stores, Volumes: stores, DataBytes: int64(stores) * 3e12, DataPerVolumeBytes: 3e12,
		Changed:    &report.Changed{Since: "nightly-2026-08-21", Regions: 4 * stores, Of: 100 * stores, DataBytes: int64(stores) * 12e10},
		EarlyApply: &report.EarlyApply{State: "excluded"},
		Hold: &report.Hold{
			Start: began.Add(seconds(2.6)), Seconds: 4.9, CutStart: began.Add(seconds(5)), CutSeconds: 2.04, SkewSeconds: .9, Attempts: 1,
			Stores: storeParts(stores, "connect", "suspend imports", "pause admin commands", "wait apply", "cut", "release"),
		},
		Expected: &report.Expected{Model: "12 runs of this storage", Seconds: 900, LowSeconds: 700, HighSeconds: 1200, Phases: []report.ExpectedPhase{
			{Name: report.CreateTask, Seconds: 3, LowSeconds: 2, HighSeconds: 5}, {Name: report.PauseScheduling, Seconds: .1, LowSeconds: .05, HighSeconds: .2},
			{Name: report.VolumeSnapshots, Seconds: 890, LowSeconds: 700, HighSeconds: 1100},
		}},
		Checks: []string{fmt.Sprintf("%d of %d snapshots completed", stores, stores), "all leases were valid over the whole cut"},
	}, timings)
}

// Restore is the report of a restore of that backup.
func Restore(stores int) *report.Report {
	timings := plan(
		phase.Timing{Phase: report.CreateCluster, Seconds: 53, Steps: []phase.StepTiming{step("load", .3), step("preflight", 1.2), step("create-cluster", 2), step("await-pd", 49.5)}},
		phase.Timing{Phase: report.RestoreVolumes, Seconds: 6.4, Steps: []phase.StepTiming{step("create-volumes", 3.2), step("await-volumes", 2), step("bind-volumes", 1.2)}},
		phase.Timing{Phase: report.StartTiKV, Seconds: 175.2, Steps: []phase.StepTiming{step("start-tikv", 1), step("await-stores", 174.2)}},
		phase.Timing{Phase: report.ResolveData, Seconds: 512.9, Steps: []phase.StepTiming{step("collect", 20.1), step("recover", 61.5), step("flashback", 431.3)}},
		phase.Timing{Phase: report.StartTiDB, Seconds: 58, Steps: []phase.StepTiming{step("leave-recovery", 3), step("await-tidb", 55)}},
	)
	r := report.New(report.Header{
		Operation: report.Restore, Run: "20260822t110000-01bc77aa", Backup: "nightly-2026-08-22", Cluster: cluster.Name{Namespace: "dr", Name: "orders"},
		Outcome: phase.Done, Started: began, Finished: began.Add(seconds(806)), TiKVs: stores, Volumes: stores, DataBytes: int64(stores) * 1e12, DataPerVolumeBytes: 1e12,
		VolumeSettings: &report.VolumeSettings{Type: "gp3", IOPS: 7000, ThroughputMiB: 400},
		Stores:         storeParts(stores, "volume", "pod", "TiKV", "collect", "recover", "flashback"),
		EarlyApply:     &report.EarlyApply{State: "unproven", Stores: 1, Regions: 3, Ahead: 2, Rebuilt: 2},
		Warnings:       []string{"the peers of 2 regions disagreed about their range"},
	}, timings)
	return r
}

// Failed is the report of a backup that held its cluster three times, and failed each time.
func Failed() *report.Report {
	failed := func(t phase.Timing, attempt int) phase.Timing {
		t.Outcome, t.Attempt = phase.Failed, attempt
		t.Steps[len(t.Steps)-1].Outcome = phase.Failed
		return t
	}
	attempt := func(n int) []phase.Timing {
		return []phase.Timing{
			{Phase: report.PauseScheduling, Seconds: .3, Attempt: n, Steps: []phase.StepTiming{step("hold", .3)}},
			{Phase: report.GetBackupTS, Seconds: 1.1, Attempt: n, Steps: []phase.StepTiming{step("backup-ts", 1.1)}},
			failed(phase.Timing{Phase: report.VolumeSnapshots, Seconds: 4.2, Steps: []phase.StepTiming{step("cut", 4.2)}}, n),
			{Phase: report.CreateTask, Seconds: 20, Attempt: max(n, 1) + 1, Steps: []phase.StepTiming{step("again", 20)}},
		}
	}
	phases := append([]phase.Timing{{Phase: report.CreateTask, Seconds: 3, Steps: []phase.StepTiming{step("preflight", 2.6), step("lock", .4)}}}, attempt(0)...)
	phases = append(phases, attempt(2)...)
	phases = append(phases, attempt(3)[:3]...)
	timings := plan(phases...)
	why := "snapshot volumes store 4 on i-0abc: the lease of store 4 (10.0.1.7:20160) ended while the volumes were cut"
	total := timings.Total()
	return report.New(report.Header{
		Operation: report.Backup, Run: "20260823t100000-1122aabb", Backup: "nightly-2026-08-23", Cluster: cluster.Name{Namespace: "prod", Name: "orders"},
		Outcome: phase.Failed, Started: began, Finished: began.Add(seconds(total + 3)), TiKVs: 3, Volumes: 6,
		Error: "attempt 3 of 3: cut: " + why, ErrorKind: "unready",
		Hold: &report.Hold{
			Start: began.Add(seconds(total - 5)), Seconds: 5.6, CutStart: began.Add(seconds(total - 4)), CutSeconds: 4.1, Attempts: 3,
			Stores: storeParts(3, "connect", "suspend imports", "pause admin commands", "wait apply", "release"),
			Failed: []phase.Attempt{
				{Number: 1, At: began.Add(seconds(8)), Step: "cut", Error: why}, {Number: 2, At: began.Add(seconds(34)), Step: "cut", Error: why},
				{Number: 3, At: began.Add(seconds(60)), Step: "cut", Error: why},
			},
		},
	}, timings)
}
