package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// From says who shows a metric.
type From string

// The sources.
const (
	FromRun      From = "run"      // a run: --metrics-push, --metrics-file
	FromExporter From = "exporter" // tisnap exporter
	FromGC       From = "gc"       // tisnap gc with --metrics-push or --metrics-file
)

// Metric is one name. All are gauges: what they are read from is a storage, whose runs can be removed.
type Metric struct {
	Name   string
	Labels []string
	Help   string // one sentence without a full stop
	From   []From
}

// desc is the metric for client_golang.
func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// Table lists all metrics. docs/metrics.md is made of it.
func Table() []Metric {
	return slices.Concat(runTable(), storageTable(), gcTable(), exporterTable())
}

// labels of the metrics of a run.
var ofRun = []string{"cluster", "operation"} // never written to

func runTable() []Metric {
	both := []From{FromRun, FromExporter}
	return []Metric{
		{"tisnap_run_success", ofRun, "Whether the last run that ended was done (1) or failed (0)", both},
		{"tisnap_run_exit_code", ofRun, "Exit code of the run", []From{FromRun}},
		{"tisnap_run_start_timestamp_seconds", ofRun, "When the last run that ended started", both},
		{"tisnap_run_end_timestamp_seconds", ofRun, "When the last run that ended did so", both},
		{"tisnap_run_duration_seconds", ofRun, "How long the last run took of which a report is stored", both},
		{"tisnap_run_phase_duration_seconds", append(slices.Clone(ofRun),
			"phase"), "How long each phase of it took", both},
		{"tisnap_run_hold_duration_seconds", ofRun, "How long the cluster was held by it, in its last attempt", both},
		{"tisnap_run_cut_duration_seconds", ofRun, "From the first CreateSnapshots request to the last answer", both},
		{"tisnap_run_hold_attempts", ofRun, "How often the cluster was held by it; more than 1 if a set of snapshots " +
			"was thrown away", both},
		{"tisnap_run_data_bytes", ofRun, "Data on the volumes, where EC2 says so", both},
		{"tisnap_run_volumes", ofRun, "Volumes that were cut or made", both},
		{"tisnap_run_tikvs", ofRun, "TiKV stores of the cluster", both},
		{"tisnap_run_warnings", ofRun, "Warnings of the run that a person has to read", both},
		{"tisnap_run_early_apply_unproven", ofRun, "Whether the backup could not prove (1) or did (0) that no " +
			"replica is ahead of its raft log", both},
		{"tisnap_run_replicas_rebuilt", ofRun, "Replicas ahead of the log that a restore has made again from the " +
			"others", both},
		{"tisnap_run_cluster_held", ofRun, "Whether the run ended without releasing the cluster: exit code 9", []From{
			FromRun,
		}},
	}
}

func storageTable() []Metric {
	exporter, byCluster := []From{FromExporter}, []string{"cluster"}
	return []Metric{
		{"tisnap_backups", []string{
			"cluster", "state",
		}, "Backups in the storage by state: sealed, unsealed, removing, damaged", exporter},
		{"tisnap_backup_last_sealed_timestamp_seconds", byCluster, "When the newest sealed backup was " +
			"sealed", exporter},
		{"tisnap_backup_last_recovery_point_timestamp_seconds", byCluster, "The backup ts of the newest sealed " +
			"backup as a time: a restore returns to it", exporter},
		{"tisnap_backup_last_size_bytes", byCluster, "Size of the volumes in the newest sealed backup", exporter},
		{"tisnap_backup_last_data_bytes", byCluster, "Data in the snapshots of the newest sealed backup; absent " +
			"where EC2 does not say", exporter},
		{"tisnap_snapshots", byCluster, "EBS snapshots that sealed backups name", exporter},
		{"tisnap_snapshots_full_size_bytes", byCluster, "Size of the volumes of all snapshots that sealed backups " +
			"name: an upper bound of what is stored", exporter},
		{"tisnap_snapshots_month_cost_usd", []string{
			"cluster", "bound",
		}, "What AWS bills a month for the snapshots of sealed backups: bound \"low\" is as if nothing had changed " +
			"between them, \"high\" as if all had", exporter},
		{"tisnap_runs", []string{
			"cluster", "operation", "outcome",
		}, "Runs in the storage by outcome: done, failed, running, died", exporter},
		{"tisnap_run_failures", []string{
			"cluster", "operation", "kind",
		}, "Runs in the storage that failed, by the kind of their error", exporter},
		{"tisnap_lock_held", byCluster, "Whether a run holds the cluster's lock and renews it", exporter},
		{"tisnap_lock_info", []string{
			"cluster", "run", "command", "host",
		}, "Who holds the cluster's lock; the value is 1", exporter},
		{"tisnap_cluster_held", byCluster, "Whether the journals say that a run holds the cluster and has not " +
			"released it", exporter},
	}
}

func gcTable() []Metric {
	return []Metric{
		{"tisnap_gc_success", nil, "Whether tisnap gc ended with exit code 0", []From{FromGC}},
		{"tisnap_gc_end_timestamp_seconds", nil, "When tisnap gc ended", []From{FromGC}},
		{"tisnap_gc_items", []string{
			"kind", "action",
		}, "What tisnap gc found by kind and by what became of it; action \"delete\" is what a dry run would delete",
			[]From{FromGC}},
		{"tisnap_gc_broken_backups", nil, "Sealed backups whose snapshots are gone", []From{FromGC}},
	}
}

func exporterTable() []Metric {
	exporter := []From{FromExporter}
	return []Metric{
		{"tisnap_build_info", []string{"version", "goversion"}, "The program; the value is 1", exporter},
		{"tisnap_exporter_last_refresh_success", nil, "Whether the storage could be read when it was read " +
			"last", exporter},
		{"tisnap_exporter_last_refresh_timestamp_seconds", nil, "When the storage was read last in full", exporter},
		{"tisnap_exporter_last_refresh_duration_seconds", nil, "How long that took", exporter},
		{"tisnap_exporter_clusters_dropped", nil, "Clusters that are not shown because there are more than " +
			"--max-clusters", exporter},
		{"tisnap_exporter_unreadable_runs", nil, "Runs and reports in the storage that cannot be read", exporter},
	}
}

// Desc is the description of the metric of that name; the second result is false if the table has none.
func Desc(name string) (*prometheus.Desc, bool) {
	for _, m := range Table() {
		if m.Name == name {
			return m.desc(), true
		}
	}
	return nil, false
}
