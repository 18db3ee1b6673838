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

// State is how a run stands.
type State string

// The states.
const (
	Done       State = "done"       // also of a restore that died, and that a resolve has finished
	Failed     State = "failed"     // it ended with an error, and undid what it did as far as that says
	Running    State = "running"    // it holds its cluster's lock
	Unfinished State = "unfinished" // its process died, or lost the lock: it can be continued or aborted
	Damaged    State = "damaged"    // its journal cannot be read
)

// Run is one run.
type Run struct {
	ID        cluster.RunID     `json:"id"`
	Operation journal.Operation `json:"operation,omitempty"`
	Cluster   cluster.Name      `json:"cluster"`
	Backup    cluster.BackupID  `json:"backup,omitempty"`
	State     State             `json:"state"`
	Step      string            `json:"step,omitempty"` // the last one that was begun and is not over
	Error     string            `json:"error,omitempty"`
	Started   time.Time         `json:"started"`
	Last      time.Time         `json:"last"` // when it wrote its journal last
	// Owner and Until are of the lock of a run that runs.
	Owner string     `json:"owner,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// RenewedAt is when the owner renewed the lock last, by its clock. Silent says that this is so long ago that the
	// process seems to be dead, or to have stopped: for people who look, as clocks differ. Whoever acts watches the
	// lock first.
	RenewedAt *time.Time `json:"renewedAt,omitempty"`
	Silent    bool       `json:"silent,omitempty"`
	// ResolvedBy is the resolve that finished a run whose process died.
	ResolvedBy cluster.RunID `json:"resolvedBy,omitempty"`
	// Processes are those of the run, the first one first.
	Processes []phase.Process `json:"processes"`

	// History is the journal; nil of a run that is damaged.
	History *phase.History `json:"-"`
	// About is what the journal's first record says.
	About journal.About `json:"-"`

	lock *runlock.Record // of a run that runs
}

// maxReaders is how many journals are read at the same time.
const maxReaders = 8

// List reads all runs, the newest first. Nothing is changed.
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

// Last is the run that held the cluster's lock last, if it is not over: alive or dead; nil if there is none. The same
// command continues it.
func Last(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || !r.History.Unfinished() {
		return nil, err
	}
	return r, nil
}

// Restored is the restore or resolve that held the cluster's lock last, if it succeeded; nil if another run did, or
// none.
func Restored(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || r.State != Done || r.Operation == journal.Backup {
		return nil, err
	}
	return r, nil
}

// Resolved is the restore or resolve that held the cluster's lock last, if it failed and its data had been resolved by
// then: the cluster is kept, and a resolve finishes it. It is nil if another run held the lock last, or none.
func Resolved(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	r, err := owner(ctx, store, name)
	if err != nil || r == nil || r.State != Failed || r.Operation == journal.Backup ||
		journal.ReadFacts(r.History.Records).Resolve.Left == nil {
		return nil, err
	}
	return r, nil
}

// owner is the run that held the cluster's lock last; nil if there is none whose journal can be read. No resolve can
// have finished it: it would have had the lock since.
func owner(ctx context.Context, store objstore.Store, name cluster.Name) (*Run, error) {
	lock, err := lockOf(ctx, store, name)
	if err != nil || lock == nil {
		return nil, err
	}
	r, err := readJournal(ctx, store, lock.Owner.Run)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return nil, nil // nothing that could be continued
	}
	return r, err
}

// CheckOwner is a Conflict if the run that held the cluster's lock last is known to be of another cluster of the same
// name than mine: that lock is not this cluster's to break.
func CheckOwner(ctx context.Context, store objstore.Store, name cluster.Name, mine *journal.About) error {
	lock, err := lockOf(ctx, store, name)
	if err != nil || lock == nil {
		return err
	}
	r, err := fromJournal(ctx, store, lock.Owner.Run)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return nil // of a command that is no run, or of one whose journal says nothing
	}
	if err == nil {
		_, err = r.About.SameCluster(r.ID, mine)
	}
	return err
}

// End closes the journal of a run that was undone by another command, so that nobody continues it. A run that has
// ended, or has no journal, stays as it is. It is a Conflict if a process of the run writes its journal.
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
