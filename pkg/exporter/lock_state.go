package exporter

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

// lockState is a cluster's lock, and the journal of its owner.
type lockState struct {
	record  runlock.Record
	alive   bool // the owner is renewing it
	about   journal.About
	records []phase.Record // of the owner, as far as read
}

// operation is the owner's operation.
func (l *lockState) operation() report.Operation {
	if l.about.Operation != "" {
		return report.Operation(l.about.Operation)
	}
	return report.Operation(l.record.Owner.Command)
}

// outcome is that of a run without a report: "running" or "died"; "" for one that ended.
func (l *lockState) outcome() string {
	switch {
	case l.record.Released || !slices.Contains(operations(), l.operation()):
		return ""
	case l.alive:
		return "running"
	}
	return "died"
}

// holds reports whether the owner holds the cluster, by its journal.
func (l *lockState) holds() bool { return backup.Holds(l.records) }

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

// readLocks reads all locks, and the journals of their owners unless they freed it. It also returns how many could not
// be decoded.
func (x *Exporter) readLocks(
	ctx context.Context, now time.Time,
) (locks map[cluster.Name]*lockState, problems int, err error) {
	objects, err := x.store.List(ctx, manifest.LocksPrefix)
	if err != nil {
		return nil, 0, failure.Annotate(err, "list locks", x.store.URL())
	}
	found := make([]*lockState, len(objects))
	err = parallel.Each(ctx, maxReads, objects, func(ctx context.Context, i int, o objstore.Object) error {
		body, _, err := x.store.Get(ctx, o.Key)
		switch {
		case failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt):
			return nil
		case err != nil:
			return failure.Annotate(err, "read lock", o.Key)
		}
		l := new(lockState)
		if json.Unmarshal(body, &l.record) == nil && manifest.LockKey(l.record.Cluster) == o.Key {
			l.alive = alive(&l.record, o.Modified, now)
			found[i] = l
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	locks = map[cluster.Name]*lockState{}
	for _, l := range found {
		if l == nil {
			problems++
			continue
		}
		locks[l.record.Cluster] = l
	}
	return locks, problems, x.readJournals(ctx, locks)
}

// readJournals adds the owners' journals to locks that are not free.
func (x *Exporter) readJournals(ctx context.Context, locks map[cluster.Name]*lockState) error {
	var open []*lockState
	for _, l := range locks {
		if !l.record.Released && len(open) < maxLive {
			open = append(open, l)
		}
	}
	x.journals.keep(open)
	return parallel.Each(ctx, maxReads, open, func(ctx context.Context, _ int, l *lockState) (err error) {
		l.records, err = x.journals.read(ctx, l.record.Owner.Run)
		if err == nil && len(l.records) > 0 {
			l.about, _ = journal.ReadAbout(l.record.Owner.Run, l.records[0]) // a newer version's is shown without it
		}
		return err
	})
}
