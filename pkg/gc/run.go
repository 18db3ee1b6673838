package gc

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Names in the journals of backups and restores.
const (
	operationBackup  = "backup"
	operationRestore = "restore"
	stepServing      = "await-leaders" // of a restore: from its end on the volumes hold live data
	stepBind         = "bind-volumes"  // of a restore: from its begin on persistent volumes may name the volumes
	intentFast       = "enable-fast-restore"
	resultFast       = "fast-restore-disabled"
)

// run is what a journal tells of a run.
type run struct {
	ID        cluster.RunID    `json:"-"`
	Operation string           `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"` // source of a backup, target of a restore
	Backup    cluster.BackupID `json:"backup"`
	// Kubernetes is the API server of a restore's target; "" where the run did not note it.
	Kubernetes string `json:"kubernetes"`
	// Keep is the user's word that a failed run keeps what it made.
	Keep bool `json:"keepOnFailure"`

	Last   time.Time `json:"-"` // when it wrote its journal last
	Ended  bool      `json:"-"`
	Error  string    `json:"-"` // of a run that ended with one
	Served bool      `json:"-"`
	Bound  bool      `json:"-"`
	// Fast are the pairs for which it enabled fast snapshot restore and did not say that they are disabled.
	Fast fastPairs `json:"-"`
}

// fastPairs are snapshots and zones, each with each.
type fastPairs struct {
	Snapshots []cluster.SnapshotID `json:"snapshots"`
	Zones     []cluster.Zone       `json:"zones"`
}

// readRun understands a journal; one that it does not is Corrupt.
func readRun(id cluster.RunID, records []phase.Record) (*run, error) {
	r := &run{ID: id}
	if len(records) == 0 || records[0].Type != phase.RecordRun || json.Unmarshal(records[0].Data, r) != nil {
		return nil, failure.New(failure.Corrupt, "read journal", string(id), "it does not say what the run is")
	}
	if r.Operation != operationBackup && r.Operation != operationRestore {
		return nil, failure.New(failure.Corrupt, "read journal", string(id), "operation %q is not known: a newer tisnap made it", r.Operation)
	}
	for _, record := range records {
		if err := r.follow(record); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "read journal", string(id))
		}
	}
	// A record after the end is of a run that was resumed.
	if last := records[len(records)-1]; last.Type == phase.RecordEnd {
		r.Ended, r.Error = true, last.Error
	}
	return r, nil
}

// follow notes how far the run came with this record.
func (r *run) follow(record phase.Record) error {
	r.Last = record.Time
	switch {
	case record.Type == phase.RecordBegin && record.Step == stepBind:
		r.Bound = true
	case record.Type == phase.RecordDone && record.Step == stepServing:
		r.Served = true
	case record.Type == phase.RecordIntent && record.Name == intentFast:
		return json.Unmarshal(record.Data, &r.Fast)
	case record.Type == phase.RecordResult && record.Name == resultFast:
		r.Fast = fastPairs{}
	}
	return nil
}

// fate says why nobody needs what the run left; only for a run that is not alive.
func (r *run) fate() string {
	switch {
	case r.Ended && r.Error != "":
		return "its run failed"
	case r.Ended:
		return "its run ended without it"
	default:
		return "its run died"
	}
}
