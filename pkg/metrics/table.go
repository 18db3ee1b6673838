package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// From is the source of a metric.
type From string

// The sources.
const (
	FromRun      From = "run"      // a run: --metrics-push, --metrics-file
	FromExporter From = "exporter" // tisnap exporter
	FromGC       From = "gc"       // tisnap gc with --metrics-push or --metrics-file
)

// Metric is one name. All are gauges, because runs can be removed from a storage.
type Metric struct {
	Name   string
	Labels []string
	Help   string // one sentence without a full stop
	From   []From
}

// desc is the metric's description for client_golang.
func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// Table lists all metrics. docs/metrics.md is generated from it.
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
		{"tisnap_run_start_timestamp_seconds", ofRun, "Start of the last run that ended", both},
		{"tisnap_run_end_timestamp_seconds", ofRun, "End of the last run that ended", both},
		{"tisnap_run_duration_seconds", ofRun, "Duration of the last run with a report in the storage", both},
		{"tisnap_run_phase_duration_seconds", append(slices.Clone(ofRun),
			"phase"), "Duration of each of its phases", both},
		{"tisnap_run_hold_duration_seconds", ofRun, "How long it held the cluster, in its last attempt", both},
		{"tisnap_run_cut_duration_seconds", ofRun, "From the first CreateSnapshots request to the last answer", both},
		{"tisnap_run_hold_attempts", ofRun, "How often it held the cluster; more than 1 if a set of snapshots " +
			"was discarded", both},
		{"tisnap_run_data_bytes", ofRun, "Data on the volumes, if EC2 reports it", both},
		{"tisnap_run_volumes", ofRun, "Volumes snapshotted or created", both},
		{"tisnap_run_tikvs", ofRun, "TiKV stores in the cluster", both},
		{"tisnap_run_warnings", ofRun, "Warnings of the run that need attention", both},
		{"tisnap_run_early_apply_unproven", ofRun, "Whether the backup failed (1) or managed (0) to prove that no " +
			"replica is ahead of its raft log", both},
		{"tisnap_run_replicas_rebuilt", ofRun, "Replicas ahead of the log that a restore rebuilt from the " +
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
		{"tisnap_backup_last_recovery_point_timestamp_seconds", byCluster, "Backup ts of the newest sealed " +
			"backup as a time: a restore returns to it", exporter},
		{"tisnap_drill_last_passed_timestamp_seconds", byCluster, "When the last drill of a backup of the cluster " +
			"that passed ended", exporter},
		{"tisnap_archive_last_timestamp_seconds", byCluster, "When the last archive of a backup of the cluster " +
			"was committed", exporter},
		{"tisnap_archive_last_stored_bytes", byCluster, "What it stored, compressed: by that the " +
			"repository grew", exporter},
		{"tisnap_archive_last_cost_usd", byCluster, "What AWS bills for its requests; absent if " +
			"a price is unknown", exporter},
		{"tisnap_archive_unverified_ratio", byCluster, "Share of the blocks of the cluster's archives that no " +
			"`tisnap archive verify` with the storage has read yet; if it reads samples, the expected share; 1 while " +
			"an archive of a repository with some of it cannot be read", exporter},
		{"tisnap_archive_last_verified_timestamp_seconds", byCluster, "When the last `tisnap archive verify` ended " +
			"that read blocks of the cluster's archives and found no damage in one of them", exporter},
		{"tisnap_backup_last_size_bytes", byCluster, "Size of the volumes in the newest sealed backup", exporter},
		{"tisnap_backup_last_data_bytes", byCluster, "Data in the snapshots of the newest sealed backup; absent if " +
			"EC2 does not report it", exporter},
		{"tisnap_snapshots", byCluster, "EBS snapshots in sealed backups", exporter},
		{"tisnap_snapshots_full_size_bytes", byCluster, "Volume size of all snapshots in sealed backups: " +
			"an upper bound of what is stored", exporter},
		{"tisnap_snapshots_month_cost_usd", []string{
			"cluster", "bound",
		}, "What AWS bills per month for the snapshots of sealed backups: bound \"low\" assumes that nothing changed " +
			"between them, \"high\" that everything did", exporter},
		{"tisnap_runs", []string{
			"cluster", "operation", "outcome",
		}, "Runs in the storage by outcome: done, failed, running, died", exporter},
		{"tisnap_run_unfinished_since_timestamp_seconds", []string{
			"cluster", "operation", "outcome",
		}, "Since when the oldest run without an end has its lock: outcome running or died. Of a drill that is about " +
			"since when its cage is there", exporter},
		{"tisnap_run_failures", []string{
			"cluster", "operation", "kind",
		}, "Failed runs in the storage by the kind of their error", exporter},
		{"tisnap_lock_held", byCluster, "Whether a run holds the cluster's lock and renews it", exporter},
		{"tisnap_lock_info", []string{
			"cluster", "run", "command", "host",
		}, "Who holds the cluster's lock; the value is 1", exporter},
		{"tisnap_cluster_held", byCluster, "Whether, by the journals, a run holds the cluster and has not " +
			"released it", exporter},
	}
}

func gcTable() []Metric {
	return []Metric{
		{"tisnap_gc_success", nil, "Whether tisnap gc ended with exit code 0", []From{FromGC}},
		{"tisnap_gc_end_timestamp_seconds", nil, "When tisnap gc ended", []From{FromGC}},
		{"tisnap_gc_items", []string{
			"kind", "action",
		}, "What tisnap gc found by kind and action; in a dry run, action \"delete\" is what it would delete",
			[]From{FromGC}},
		{"tisnap_gc_broken_backups", nil, "Sealed backups whose snapshots are gone", []From{FromGC}},
	}
}

func exporterTable() []Metric {
	exporter := []From{FromExporter}
	return []Metric{
		{"tisnap_build_info", []string{"version", "goversion"}, "The program; the value is 1", exporter},
		{"tisnap_exporter_last_refresh_success", nil, "Whether the last read of the storage " +
			"succeeded", exporter},
		{"tisnap_exporter_last_refresh_timestamp_seconds", nil, "When the storage was last read completely", exporter},
		{"tisnap_exporter_last_refresh_duration_seconds", nil, "Duration of that read", exporter},
		{"tisnap_exporter_clusters_dropped", nil, "Clusters without metrics because there are more than " +
			"--max-clusters", exporter},
		{"tisnap_exporter_unreadable_runs", nil, "Unreadable runs and reports in the storage", exporter},
	}
}

// Desc returns the description of the metric of that name; false if the table has none.
func Desc(name string) (*prometheus.Desc, bool) {
	for _, m := range Table() {
		if m.Name == name {
			return m.desc(), true
		}
	}
	return nil, false
}
