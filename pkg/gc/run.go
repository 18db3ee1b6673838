package gc

import (
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// run is what a journal records about a run.
type run struct {
	journal.About
	ID cluster.RunID

	Began  time.Time // when its first journal record was written
	Last   time.Time // when its last journal record was written
	Ended  bool
	Error  string // of a run that ended with one
	Served bool
	Bound  bool
	// Effects reports that it asked EC2 to create something, Target that it may have made something in Kubernetes.
	Effects, Target bool
	// Fast are the pairs for which it enabled fast snapshot restore without recording that they were disabled.
	Fast journal.FastRestore
}

// readRun interprets a journal; Corrupt if it cannot.
func readRun(id cluster.RunID, records []phase.Record) (*run, error) {
	if len(records) == 0 {
		return nil, failure.New(failure.Corrupt, "read journal", string(id), "it has no records")
	}
	about, err := journal.ReadAbout(id, records[0])
	if err != nil {
		return nil, err
	}
	r := &run{ID: id, About: about}
	if !slices.Contains(journal.Operations(), r.Operation) {
		return nil, failure.New(failure.Corrupt, "read journal", string(id),
			"unknown operation %q: made by a newer tisnap", r.Operation)
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

// fate returns why what the run left is not needed; only for a run that is not alive.
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

// makes reports whether a backup is what the run makes: by a cut, or by a copy of another storage's.
func (r *run) makes() bool { return r.Operation == journal.Backup || r.Operation == journal.Copy }
