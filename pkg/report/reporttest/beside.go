package reporttest

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// beside is the report of a run beside the cluster whose backup that of Backup is.
func beside(of report.Operation, stores int, timings phase.Timings) report.Header {
	return report.Header{
		Operation: of, Run: "20260822t130000-0a1b2c3d", Backup: "nightly-2026-08-22",
		Cluster: cluster.Name{Namespace: "prod", Name: "orders"}, Outcome: phase.Done, TiKVs: stores, Volumes: stores,
		Started: began, Finished: began.Add(seconds(timings.Total())),
	}
}

// Archive is the report of an archive of that backup: the file system of one volume is unknown.
func Archive(stores int) *report.Report {
	timings := plan(
		phase.Timing{Phase: "prepare", Seconds: 12, Steps: []phase.StepTiming{step("preflight", 11.5), step("lock", .5)}},
		phase.Timing{Phase: "archive blocks", Seconds: 5230, Steps: []phase.StepTiming{step("archive-blocks", 5230)}},
		phase.Timing{Phase: "commit", Seconds: 3, Steps: []phase.StepTiming{step("commit", 2.5), step("unlock", .5)}},
	)
	cost := 8.42
	each := report.ArchivedBytes{ReadBytes: 9e11, ZeroBytes: 1e10, UnchangedBytes: 7e11, PackedBytes: 19e10, FreeBytes: 21e11}
	a := &report.Archived{
		Repository: "ee532fbad8781b8b506bc9dfc932c542", Archive: "nightly-2026-08-22-91efab40", Base: "nightly-2026-08-21-b5713ce5",
		Packs: 2900, StoredBytes: 11e10, Lists: 12_000, Reads: 1_700_000, Throttled: 3, RequestsUSD: &cost,
	}
	for i := range stores {
		v := report.ArchivedVolume{Store: cluster.StoreID(i + 1), Role: "storage.data-dir", ArchivedBytes: each, Seconds: 5000 + float64(i)}
		if i == 0 {
			v.FreeUnknown = "the volume has no ext4 file system, or has it in a partition or below LVM or LUKS"
		}
		a.Volumes = append(a.Volumes, v)
		a.ReadBytes += each.ReadBytes
		a.PackedBytes += each.PackedBytes
		a.FreeBytes += each.FreeBytes
	}
	h := beside(report.Archive, stores, timings)
	h.Archived = a
	return report.New(h, timings)
}

// Copy is the report of a copy of that backup into another region.
func Copy(stores int) *report.Report {
	timings := plan(
		phase.Timing{Phase: "prepare", Seconds: 4, Steps: []phase.StepTiming{step("preflight", 3.5), step("lock", .5)}},
		phase.Timing{Phase: "copy snapshots", Seconds: 9_400, Steps: []phase.StepTiming{step("request", 40), step("await-copies", 9_360)}},
		phase.Timing{Phase: "seal", Seconds: 1, Steps: []phase.StepTiming{step("seal", 1)}},
	)
	h := beside(report.Copy, stores, timings)
	h.Copied = &report.CopiedSet{
		FromRegion: "us-west-2", ToRegion: "eu-west-1", Account: "222222222222", Snapshots: stores, Completed: stores,
		FullBytes: 3e12, ChangedBytes: 6e12,
	}
	return report.New(h, timings)
}

// Drill is the report of a drill of that backup whose checks did not pass.
func Drill(stores int) *report.Report {
	timings := plan(
		phase.Timing{Phase: "prepare", Seconds: 40, Steps: []phase.StepTiming{step("preflight", 5), step("make-cage", 35)}},
		phase.Timing{Phase: "restore", Seconds: 810, Steps: []phase.StepTiming{step("restore", 810)}},
		phase.Timing{Phase: "check", Seconds: 620, Steps: []phase.StepTiming{step("check", 620)}, Outcome: phase.Failed},
		phase.Timing{Phase: "tear down", Seconds: 95, Steps: []phase.StepTiming{step("remove", 95)}},
	)
	h := beside(report.Drill, stores, timings)
	h.Outcome, h.ErrorKind = phase.Failed, "unproven"
	h.Error = "drill nightly-2026-08-22: it was restored, and its checks did not pass: table orders.item: data inconsistency in index customer"
	h.Drilled = &report.Drilled{
		Restore: drill.Passed, Checks: drill.Failed, TearDown: drill.Gone,
		Found: &checks.Result{Outcome: checks.Failed, Seed: 18277463519283746, Tables: 412, Checks: []checks.Check{
			{Kind: checks.OfTable, Name: "orders.cart", Outcome: checks.Passed, Seconds: 14},
			{Kind: checks.OfTable, Name: "orders.item", Outcome: checks.Failed, Seconds: 19, Why: "data inconsistency in table: item, index: customer"},
			{Kind: checks.OfStatement, Name: "heartbeat", Outcome: checks.Passed, Seconds: 1},
		}},
	}
	return report.New(h, timings)
}
