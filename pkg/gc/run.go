package gc

import (
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
	r := &run{ID: id, About: about}
	if r.Operation != journal.Backup && r.Operation != journal.Restore && r.Operation != journal.Resolve {
		return nil, failure.New(failure.Corrupt, "read journal", string(id),
			"operation %q is not known: a newer tisnap made it", r.Operation)
	}
	f := journal.ReadFacts(records)
	if err := f.Restore.FastUnclear; err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read journal", string(id))
	}
	r.Began, r.Last, r.Ended, r.Error = f.Began, f.Last, f.Ended, f.Error
	r.Served, r.Bound, r.Effects, r.Target = f.Resolve.Served, f.Restore.Bound, f.AskedEC2, f.Restore.Target
	if f.Restore.Fast != nil {
		r.Fast = *f.Restore.Fast
	}
	return r, nil
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
