package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Bounds for reading locks and journals.
const (
	maxReads = 32
	// missedRenewals is how many renewals an owner may miss before it counts as dead, and minAlive the shortest time
	// until then.
	missedRenewals = 4
	minAlive       = 2 * time.Minute
	// maxLive bounds the journals followed at the same time.
	maxLive = 100
)

// Lock is a cluster's lock, and the journal of its owner.
type Lock struct {
	Record  runlock.Record
	Alive   bool // the owner is renewing it
	About   journal.About
	Records []phase.Record // of the owner, as far as read; none if it freed the lock
}

// Operation is the owner's operation.
func (l *Lock) Operation() report.Operation {
	if l.About.Operation != "" {
		return report.Operation(l.About.Operation)
	}
	return report.Operation(l.Record.Owner.Command)
}

// Dead reports whether the owner's process died in a run that can be resumed.
func (l *Lock) Dead() bool { return l.outcome() == died }

// Outcomes of runs without an end.
const (
	running = "running"
	died    = "died"
)

// outcome is that of a run without an end; "" for one that ended, even if it could not free the lock.
func (l *Lock) outcome() string {
	switch {
	case l.Record.Released || journal.ReadFacts(l.Records).Ended || !slices.Contains(Operations(), l.Operation()):
		return ""
	case l.Alive:
		return running
	}
	return died
}

// holds reports whether the owner holds the cluster, by its journal.
func (l *Lock) holds() bool { return backup.Holds(l.Records) }

// alive reports whether the owner has recently renewed the lock, by the storage's clock.
func alive(r *runlock.Record, modified, now time.Time) bool {
	if r.Released {
		return false
	}
	if r.RenewSeconds <= 0 {
		return r.Held(now)
	}
	patience := max(minAlive, time.Duration(missedRenewals*r.RenewSeconds*float64(time.Second)))
	return now.Sub(modified) < patience
}

// readLocks reads all locks, and the journals of their owners unless they freed it. It also returns the keys of the
// objects that cannot be decoded.
func (r *Reader) readLocks(
	ctx context.Context, now time.Time,
) (locks map[cluster.Name]*Lock, unreadable []string, err error) {
	objects, err := r.store.List(ctx, manifest.LocksPrefix)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list locks", r.store.URL())
	}
	found := make([]*Lock, len(objects))
	bad := make([]string, len(objects))
	err = parallel.Each(ctx, maxReads, objects, func(ctx context.Context, i int, o objstore.Object) error {
		body, _, err := r.store.Get(ctx, o.Key)
		if failure.Is(err, failure.NotFound) {
			return nil // deleted meanwhile
		}
		if err != nil && !failure.Is(err, failure.Corrupt) {
			return failure.Annotate(err, "read lock", o.Key)
		}
		l := new(Lock)
		if err == nil && json.Unmarshal(body, &l.Record) == nil && manifest.LockKey(l.Record.Cluster) == o.Key {
			l.Alive = alive(&l.Record, o.Modified, now)
			found[i] = l
		} else {
			bad[i] = o.Key
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	found = slices.DeleteFunc(found, func(l *Lock) bool { return l == nil })
	more, err := r.readJournals(ctx, found)
	locks = map[cluster.Name]*Lock{}
	for _, l := range found {
		locks[l.Record.Cluster] = l
	}
	return locks, slices.DeleteFunc(slices.Concat(bad, more), func(key string) bool { return key == "" }), err
}

// readJournals adds the owners' journals to locks that are not free. unreadable has a key, or "", for each.
func (r *Reader) readJournals(ctx context.Context, locks []*Lock) (unreadable []string, err error) {
	open := slices.DeleteFunc(slices.Clone(locks), func(l *Lock) bool { return l.Record.Released })
	open = open[:min(len(open), maxLive)]
	r.journals.keep(open)
	unreadable = make([]string, len(open))
	return unreadable, parallel.Each(ctx, maxReads, open, func(ctx context.Context, i int, l *Lock) (err error) {
		run := l.Record.Owner.Run
		l.Records, unreadable[i], err = r.journals.read(ctx, run)
		if err == nil && len(l.Records) > 0 {
			if l.About, err = journal.ReadAbout(run, l.Records[0]); err != nil {
				unreadable[i], err = manifest.JournalPrefix(run), nil
			}
		}
		return err
	})
}
