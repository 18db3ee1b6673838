package exporter

import (
	"runtime"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

const gib = 1 << 30

// maxWarnings bounds the count of warnings, which comes from the storage.
const maxWarnings = 1000

// collect makes the metrics of a state. Their number is bounded: about 150 for each cluster shown.
func (x *Exporter) collect(s *fleet.State) *metrics.Set {
	set := metrics.NewSet()
	clusters, dropped := s.Ordered(x.options.MaxClusters)
	set.Add("tisnap_build_info", 1, x.options.Version, runtime.Version())
	set.Add("tisnap_exporter_clusters_dropped", float64(dropped))
	set.Add("tisnap_exporter_unreadable_runs", float64(len(s.Unreadable)))
	for _, c := range clusters {
		name := c.Name.String()
		addBackups(set, name, c)
		x.addCost(set, name, c)
		for _, op := range fleet.Operations() {
			addRuns(set, name, op, c)
		}
		set.AddBool("tisnap_lock_held", c.Live(), name)
		set.AddBool("tisnap_cluster_held", c.Held(s.Read), name)
		if c.Live() {
			o := c.Lock.Record.Owner
			set.Add("tisnap_lock_info", 1, name, string(o.Run), o.Command, o.Host)
		}
	}
	set.Complete()
	return set
}

func addBackups(set *metrics.Set, name string, c *fleet.Cluster) {
	for _, state := range []catalog.State{
		catalog.StateSealed, catalog.StateUnsealed, catalog.StateRemoving, catalog.StateDamaged,
	} {
		set.Add("tisnap_backups", float64(c.States[state]), name, string(state))
	}
	set.Add("tisnap_snapshots", float64(c.Snapshots), name)
	set.Add("tisnap_snapshots_full_size_bytes", float64(c.SizeGiB)*gib, name)
	if r := c.Good(report.Drill); r != nil {
		set.AddTime("tisnap_drill_last_passed_timestamp_seconds", r.Finished, name)
	}
	if r := c.Good(report.Archive); r != nil {
		set.AddTime("tisnap_archive_last_timestamp_seconds", r.Finished, name)
		set.Add("tisnap_archive_last_stored_bytes", float64(r.StoredBytes), name)
		if r.RequestsUSD != nil {
			set.Add("tisnap_archive_last_cost_usd", *r.RequestsUSD, name)
		}
	}
	if share, known := c.Unverified(); known {
		set.Add("tisnap_archive_unverified_ratio", share, name)
	}
	if !c.Archived.Verified.IsZero() {
		set.AddTime("tisnap_archive_last_verified_timestamp_seconds", c.Archived.Verified, name)
	}
	if c.Sealed == nil {
		return
	}
	set.AddTime("tisnap_backup_last_sealed_timestamp_seconds", c.Sealed.SealedAt, name)
	set.Add("tisnap_backup_last_size_bytes", float64(c.Sealed.SizeGiB)*gib, name)
	if c.Sealed.BackupTS != 0 {
		set.AddTime("tisnap_backup_last_recovery_point_timestamp_seconds", c.Sealed.BackupTS.Time(), name)
	}
	if c.Sealed.DataBytes > 0 {
		set.Add("tisnap_backup_last_data_bytes", float64(c.Sealed.DataBytes), name)
	}
}

// addCost adds the range of what the snapshots cost. The snapshots of a volume share unchanged blocks, and only AWS's
// bill shows how many: at least the largest backup is stored, at most all of each.
func (x *Exporter) addCost(set *metrics.Set, name string, c *fleet.Cluster) {
	price := x.options.Prices.MonthOfGB()
	if price == nil || c.Snapshots == 0 {
		return
	}
	set.Add("tisnap_snapshots_month_cost_usd", float64(c.LargestBytes)/gib**price, name, "low")
	set.Add("tisnap_snapshots_month_cost_usd", float64(c.DataBytes)/gib**price, name, "high")
}

func addRuns(set *metrics.Set, name string, op report.Operation, c *fleet.Cluster) {
	for _, outcome := range []string{string(phase.Done), string(phase.Failed), "running", "died"} {
		set.Add("tisnap_runs", float64(c.Count(op, outcome)), name, string(op), outcome)
	}
	for _, outcome := range []string{"running", "died"} {
		set.AddTime("tisnap_run_unfinished_since_timestamp_seconds", c.Since(op, outcome), name, string(op), outcome)
	}
	failed := map[string]int{}
	for _, r := range c.Runs[op] {
		if r.ErrorKind != "" {
			failed[knownKind(r.ErrorKind)]++
		}
	}
	for _, kind := range failure.KindNames() {
		set.Add("tisnap_run_failures", float64(failed[kind]), name, string(op), kind)
	}
	if last := c.Last(op); last != nil {
		set.AddReport(asReport(last))
	}
}

// knownKind maps a kind of error to one that this version knows: a storage may contain anything.
func knownKind(kind string) string {
	if slices.Contains(failure.KindNames(), kind) {
		return kind
	}
	return failure.Unknown.String()
}

// asReport turns a summary back into a report.
func asReport(r *history.Run) *report.Report {
	out := &report.Report{
		Header: report.Header{
			Operation: r.Operation, Run: r.Run, Backup: r.Backup, Cluster: r.Cluster, Outcome: r.Outcome,
			Started: r.Started, Finished: r.Finished,
			TiKVs: r.TiKVs, Volumes: r.Volumes, DataBytes: r.DataBytes, EarlyApply: r.EarlyApply,
			Warnings: make([]string, min(max(r.Warnings, 0), maxWarnings)),
		},
		TotalSeconds: r.Seconds,
	}
	if r.HoldSeconds > 0 {
		out.Hold = &report.Hold{Seconds: r.HoldSeconds, CutSeconds: r.CutSeconds, Attempts: r.Attempts}
	}
	for _, p := range r.Phases {
		out.Phases = append(out.Phases, report.Phase{Name: p.Name, Seconds: p.Seconds})
	}
	return out
}
