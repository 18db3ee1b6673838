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

// Bounds of what is read of locks and journals.
const (
	maxReads = 32
	// missedRenewals is how many renewals an owner may miss before it counts as dead, and minAlive how long it lives at
	// least.
	missedRenewals = 4
	minAlive       = 2 * time.Minute
	// maxLive bounds the journals that are followed at the same time.
	maxLive = 100
)

// lockState is a cluster's lock, and the journal of its owner.
type lockState struct {
	record  runlock.Record
	alive   bool // the owner renews it
	about   journal.About
	records []phase.Record // of the owner, as far as they were read
}

// operation is what the owner does.
func (l *lockState) operation() report.Operation {
	if l.about.Operation != "" {
		return report.Operation(l.about.Operation)
	}
	return report.Operation(l.record.Owner.Command)
}

// outcome counts a run that has no report: "running" or "died"; "" for one that ended.
func (l *lockState) outcome() string {
	switch {
	case l.record.Released || !slices.Contains(operations(), l.operation()):
		return ""
	case l.alive:
		return "running"
	}
	return "died"
}

// holds reports whether the owner's journal says that it holds the cluster.
func (l *lockState) holds() bool { return backup.Holds(l.records) }

// alive reports whether the owner renewed the lock a moment ago, by the storage's clock.
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

// readLocks reads all locks, and the journals of those that own one and have not freed it. Those that cannot be
// understood are counted.
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

// readJournals adds the owners' journals to the locks that are not free.
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
			l.about, _ = journal.ReadAbout(l.record.Owner.Run, l.records[0]) // a newer version's: it is shown without
		}
		return err
	})
}
