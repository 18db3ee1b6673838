package runs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// State is a run's state.
type State string

// The states.
const (
	Done       State = "done"       // also a dead restore that a resolve has finished
	Failed     State = "failed"     // it ended with an error, which names what was not undone
	Running    State = "running"    // it holds its cluster's lock
	Unfinished State = "unfinished" // its process died or lost the lock: it can be resumed or aborted
	Damaged    State = "damaged"    // its journal cannot be read
)

// Run is one run.
type Run struct {
	ID        cluster.RunID     `json:"id"`
	Operation journal.Operation `json:"operation,omitempty"`
	Cluster   cluster.Name      `json:"cluster"`
	Backup    cluster.BackupID  `json:"backup,omitempty"`
	State     State             `json:"state"`
	Step      string            `json:"step,omitempty"` // the last one begun and not ended
	Error     string            `json:"error,omitempty"`
	Started   time.Time         `json:"started"`
	Last      time.Time         `json:"last"` // when its last record was written
	// Owner and Until are those of a running run's lock.
	Owner string     `json:"owner,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// RenewedAt is when the owner last renewed the lock, by its clock. Silent is true if that is so long ago that the
	// process seems to be dead or stopped. Both are for display, as clocks differ: before acting, watch the lock.
	RenewedAt *time.Time `json:"renewedAt,omitempty"`
	Silent    bool       `json:"silent,omitempty"`
	// ResolvedBy is the resolve that finished a run whose process died.
	ResolvedBy cluster.RunID `json:"resolvedBy,omitempty"`
	// Processes are the run's processes, the first one first. Seconds of a live one include its steps so far.
	Processes []phase.Process `json:"processes"`

	// History is the journal; nil for a damaged run.
	History *phase.History `json:"-"`
	// About is the journal's first record.
	About journal.About `json:"-"`

	lock *runlock.Record // of a running run
}

// maxReaders bounds the concurrent reads of journals.
const maxReaders = 8

// List reads all runs, newest first. It changes nothing.
func List(ctx context.Context, store objstore.Store) ([]Run, error) {
	found, err := All(ctx, store)
	if err != nil {
		return nil, err
	}
	out := make([]Run, len(found))
	err = parallel.Each(ctx, maxReaders, found, func(ctx context.Context, i int, f Found) error {
		r, err := readJournal(ctx, store, f.ID)
		if failure.Is(err, failure.Corrupt) {
			r, err = &Run{ID: f.ID, State: Damaged, Error: err.Error(), Processes: []phase.Process{}}, nil
		}
		if err == nil {
			out[i] = *r
		}
		return err
	})
	slices.SortFunc(out, newestFirst)
	for i := range out {
		out[i].markResolved(out)
	}
	return out, err
}

func newestFirst(a, b Run) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID)) }

// Last returns the last run that held the cluster's lock, alive or dead, if it has not ended; else nil. The same
// command resumes it.
func Last(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || !r.History.Unfinished() {
		return nil, err
	}
	return r, nil
}

// Restored returns the last run that held the cluster's lock, if it is a restore or resolve that succeeded; else nil.
func Restored(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || r.State != Done || !r.restores() {
		return nil, err
	}
	return r, nil
}

// Resolved returns the last run that held the cluster's lock, if it is a restore or resolve that failed after its data
// was resolved; else nil. Its cluster is kept, and a resolve finishes it.
func Resolved(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || r.State != Failed || !r.restores() ||
		journal.ReadFacts(r.History.Records).Resolve.LeftRecovery == nil {
		return nil, err
	}
	return r, nil
}

// owner returns the last run that held the cluster's lock; nil if there is none with a readable journal. No resolve can
// have finished it: that would have taken the lock since.
func owner(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	lock, err := lockOf(ctx, store, name)
	if err != nil || lock == nil {
		return nil, err
	}
	r, err := readJournal(ctx, store, lock.Owner.Run)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return nil, nil // nothing to resume
	}
	return r, err
}

// CheckOwner returns a Conflict if the last run that held the lock is known to belong to another cluster of the same
// name: that lock must not be broken for this one.
func CheckOwner(ctx context.Context, store objstore.Store, name cluster.Name, mine *journal.About) error {
	lock, err := lockOf(ctx, store, name)
	if err != nil || lock == nil {
		return err
	}
	r, err := fromJournal(ctx, store, lock.Owner.Run)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return nil // not a run, or one without a usable journal
	}
	if err == nil {
		_, err = r.About.SameCluster(r.ID, mine)
	}
	return err
}

// End closes the journal of a run that another command has undone, so that it is not resumed. A run that has ended, or
// has no journal, is left as it is. It returns a Conflict if a process of the run is writing its journal.
func End(ctx context.Context, store objstore.Store, id cluster.RunID, reason string) error {
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(id))
	h, err := phase.ReadHistory(ctx, j)
	if err != nil || !h.Unfinished() {
		return failure.Annotate(err, "end run", string(id))
	}
	last := h.Records[len(h.Records)-1]
	return failure.Annotate(j.Append(ctx, phase.Record{
		Seq: last.Seq + 1, Time: time.Now().UTC(), Run: id, Type: phase.RecordEnd, Error: reason, Epoch: last.Epoch,
	}), "end run", string(id))
}
