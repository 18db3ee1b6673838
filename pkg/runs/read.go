package runs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Read reads one run. It returns NotFound if the storage has no journal of it, and Corrupt if the journal cannot be
// decoded. For an unfinished restore or resolve it also looks for a later resolve that finished it.
func Read(ctx context.Context, store objstore.Store, id cluster.RunID) (*Run, error) {
	r, err := readJournal(ctx, store, id)
	if err != nil || r.State != Unfinished || !r.restores() {
		return r, err
	}
	later, err := Resolves(ctx, store, r.Cluster, r.Backup, r.Started)
	if err != nil {
		return nil, err
	}
	r.markResolved(later)
	return r, nil
}

// A run's last step releases its lock; the end of its journal is written after that.
const (
	endsWithin = 3 * time.Second
	endPoll    = 100 * time.Millisecond
	endRecent  = time.Minute // an older journal's end is not awaited; clocks may differ by half of it
)

// readJournal reads a run, which may end meanwhile.
func readJournal(ctx context.Context, store objstore.Store, id cluster.RunID) (*Run, error) {
	r, err := fromJournal(ctx, store, id)
	if err != nil || r.History.Ended {
		return r, err
	}
	for limit := time.Now().Add(endsWithin); ; {
		lock, err := lockOf(ctx, store, r.About.Lock())
		if err != nil {
			return nil, err
		}
		if r.setState(lock); r.State == Running {
			return r, nil
		}
		// The lock may be free because the run has ended since its journal was read.
		if r, err = fromJournal(ctx, store, id); err != nil || r.History.Ended {
			return r, err
		}
		ending := lock != nil && lock.Owner.Run == id && lock.Released
		if !ending || time.Since(r.Last) > endRecent || time.Now().After(limit) {
			r.setState(lock)
			return r, nil
		}
		if err := wait.For(ctx, endPoll); err != nil {
			return nil, failure.Annotate(err, "read run", string(id))
		}
	}
}

// fromJournal reads a run from its journal alone: without an end it is Unfinished.
func fromJournal(ctx context.Context, store objstore.Store, id cluster.RunID) (*Run, error) {
	h, err := phase.ReadHistory(ctx, journal.NewStoreJournal(store, manifest.JournalPrefix(id)))
	if err != nil {
		return nil, failure.Annotate(err, "read run", string(id))
	}
	if len(h.Records) == 0 {
		return nil, failure.New(failure.NotFound, "read run", string(id), "%s has no journal of it", store.URL()).
			WithHint("list the runs: tisnap runs list")
	}
	about, err := journal.ReadAbout(id, h.Records[0])
	if err != nil {
		return nil, err
	}
	r := &Run{
		ID: id, Operation: about.Operation, Cluster: about.Cluster, Backup: about.Backup, About: about, History: h,
		Started: h.Records[0].Time, Last: h.Records[len(h.Records)-1].Time, Processes: h.Processes(), State: Done,
	}
	r.Step = r.Processes[len(r.Processes)-1].Step
	switch {
	case h.Ended && h.Error != "":
		r.State, r.Error = Failed, h.Error
	case !h.Ended:
		r.State = Unfinished
	}
	return r, nil
}

// lockOf returns the cluster's lock; nil if there is none.
func lockOf(ctx context.Context, store objstore.Store, name cluster.Name) (*runlock.Record, error) {
	lock, _, err := runlock.Read(ctx, store, name)
	if failure.Is(err, failure.NotFound) {
		return nil, nil
	}
	return lock, err
}

// setState decides by the cluster's lock whether a run without an end is running.
func (r *Run) setState(lock *runlock.Record) {
	now := time.Now()
	switch {
	case lock == nil || lock.Owner.Run != r.ID:
		r.diedEarly()
	case lock.Unexpired(now): // for display only: no lock is taken because of it
		until, renewed := lock.FreeAt().UTC(), lock.RenewedAt.UTC()
		r.State, r.Owner, r.Until = Running, lock.Owner.String(), &until
		r.lock, r.RenewedAt, r.Silent = lock, &renewed, lock.Silent(now)
		if !r.Silent {
			r.Processes[len(r.Processes)-1].Seconds += r.History.RunningSeconds(now)
		}
	}
}

// diedEarly marks a run as failed if no process of it got the lock, before which nothing is changed.
func (r *Run) diedEarly() {
	if !journal.ReadFacts(r.History.Records).Locked {
		r.State, r.Error = Failed, "its process died before it had the cluster's lock: it changed nothing"
	}
}

// restores reports whether a resolve may have finished what the run began.
func (r *Run) restores() bool {
	return r.Operation == journal.Restore || r.Operation == journal.Resolve
}
