package gc

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// run is what a journal says of a run.
type run struct {
	journal.About
	ID cluster.RunID

	Began  time.Time // when it wrote its journal first
	Last   time.Time // when it wrote its journal last
	Ended  bool
	Error  string // of a run that ended with one
	Served bool
	Bound  bool
	// Effects says that it asked EC2 for something, Target that it may have made something in Kubernetes.
	Effects, Target bool
	// Fast are the pairs for which it enabled fast snapshot restore and did not say that they are disabled.
	Fast journal.FastRestore
}

// readRun understands a journal; one that it does not is Corrupt.
func readRun(id cluster.RunID, records []phase.Record) (*run, error) {
	if len(records) == 0 {
		return nil, failure.New(failure.Corrupt, "read journal", string(id), "it has no record")
	}
	about, err := journal.ReadAbout(id, records[0])
	if err != nil {
		return nil, err
	}
	r := &run{ID: id, About: about, Began: records[0].Time}
	if r.Operation != journal.Backup && r.Operation != journal.Restore && r.Operation != journal.Resolve {
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
	r.Last, r.Effects = record.Time, r.Effects || effects(record)
	r.Target = r.Target || record.Type == phase.RecordBegin && (record.Step == journal.StepCreateCluster || record.Step == journal.StepBindVolumes)
	switch {
	case record.Type == phase.RecordBegin && (record.Step == journal.StepBindVolumes || record.Step == journal.StepHandOver):
		r.Bound = true
	case record.Type == phase.RecordDone && record.Step == journal.StepAwaitLeaders,
		record.Type == phase.RecordResult && record.Name == journal.ResultServes:
		r.Served = true
	case record.Type == phase.RecordIntent && record.Name == journal.IntentFastRestore:
		return json.Unmarshal(record.Data, &r.Fast)
	case record.Type == phase.RecordResult && record.Name == journal.ResultFastRestoreEnded:
		r.Fast = journal.FastRestore{}
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
