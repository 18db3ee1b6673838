package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/storage"
)

// maxReads bounds the concurrent reads of object storage.
const maxReads = 16

// world is everything that a decision depends on. It is read after EC2 was listed: a run that made something in that
// list took its lock before the lock is read here.
type world struct {
	now     time.Time
	storage storage.Storage // the zero value owns nothing that carries an id
	backups map[cluster.BackupID]catalog.Entry
	// named maps the snapshots of sealed, verified manifests to their backups.
	named   map[cluster.SnapshotID]cluster.BackupID
	regions map[cluster.BackupID]string // of those manifests
	pins    map[cluster.BackupID]*manifest.PinRecord
	copies  copies
	// broken maps untrustworthy backups to the reason.
	broken map[cluster.BackupID]string
	known  map[cluster.RunID]bool // whose journal is in this storage
	// written is when a journal's newest record was written, by the storage's clock; zero if only a compacted object is
	// left.
	written map[cluster.RunID]time.Time
	region  string                 // that EC2 was asked in
	runs    map[cluster.RunID]*run // the requested and understood ones
	doubts  map[cluster.RunID]error
	locks   map[cluster.Name]runlock.Finding // absent if it was never taken
	// unread maps clusters with an unreadable lock to the error.
	unread map[cluster.Name]error
	// handles maps volumes to the persistent volume that names them; noHandles is why that is unknown.
	handles   map[cluster.VolumeID]string
	noHandles error
	// kubernetes is the API server that handles came from, kubernetesUID its cluster.
	kubernetes, kubernetesUID string
	locked                    map[cluster.SnapshotID]ebs.SnapshotLock
	kube                      Kube // nil before it was asked
	leftovers                 map[cluster.RunID]kube.RestoreLeftover
	strays                    map[cluster.Name]strays
	// claims are those of the namespaces of unfinished restores whose targets are gone, as Kubernetes has them
	// (kube.Leftover.Bound), and provisioned what CSI drivers made for claims of a namespace.
	claims      map[cluster.RunID]map[string]string
	provisioned map[string][]ebs.Volume
	noLeftovers error // why it is unknown what restores left in Kubernetes
}

// readBackups reads all backups and the manifests of the sealed ones.
func (w *world) readBackups(ctx context.Context, c catalog.Catalog) error {
	entries, err := c.List(ctx)
	if err != nil {
		return err
	}
	if w.pins, err = c.Pins(ctx); err != nil {
		return err
	}
	w.backups, w.broken = map[cluster.BackupID]catalog.Entry{}, map[cluster.BackupID]string{}
	w.copies = copies{}
	w.named, w.regions = map[cluster.SnapshotID]cluster.BackupID{}, map[cluster.BackupID]string{}
	var mu sync.Mutex
	return parallel.Each(ctx, maxReads, entries, func(ctx context.Context, _ int, e catalog.Entry) error {
		var m *manifest.Manifest
		var err error
		if e.State == catalog.StateSealed {
			m, err = c.Load(ctx, e.ID)
		}
		mu.Lock()
		defer mu.Unlock()
		w.backups[e.ID] = e
		switch {
		case e.State == catalog.StateDamaged:
			w.broken[e.ID] = e.Problem
		case failure.Is(err, failure.Corrupt), failure.Is(err, failure.Usage), failure.Is(err, failure.NotFound):
			w.broken[e.ID] = err.Error()
		case err != nil:
			return err
		case m != nil:
			if m.CopyOf != nil {
				w.copies[e.ID] = copiesOf(m)
			}
			e.ClusterID = m.Source.ClusterID // seals of older versions do not have it
			w.backups[e.ID], w.regions[e.ID] = e, m.Region
			for _, id := range m.SnapshotIDs() {
				w.named[id] = e.ID
			}
		}
		return nil
	})
}

// pin returns the pin that keeps a backup of this run; nil if there is none.
func (w *world) pin(id cluster.BackupID, run cluster.RunID) *manifest.PinRecord {
	if pin := w.pins[id]; pin != nil && pin.Of(run) {
		return pin
	}
	return nil
}

// readRuns reads the journals of those of the runs that are in the storage, and the locks of their clusters.
func (w *world) readRuns(ctx context.Context, d Deps, ids []cluster.RunID) error {
	w.runs, w.doubts = map[cluster.RunID]*run{}, map[cluster.RunID]error{}
	slices.Sort(ids)
	var wanted []cluster.RunID
	for _, id := range slices.Compact(ids) {
		if w.known[id] {
			wanted = append(wanted, id)
		}
	}
	var mu sync.Mutex
	err := parallel.Each(ctx, maxReads, wanted, func(ctx context.Context, _ int, id cluster.RunID) error {
		r, err := loadRun(ctx, d, id)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			w.runs[id] = r
		case failure.Is(err, failure.Corrupt):
			w.doubts[id] = err
		default:
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.readLocks(ctx, d)
}

// listRuns notes which runs have a journal in the storage.
func (w *world) listRuns(ctx context.Context, d Deps) error {
	found, err := runs.All(ctx, d.Store)
	if err != nil {
		return err
	}
	w.known, w.written = map[cluster.RunID]bool{}, map[cluster.RunID]time.Time{}
	for _, f := range found {
		w.known[f.ID], w.written[f.ID] = true, f.Recorded
	}
	return nil
}

// operations lists the restores and resolves in the storage: a restore may have left something in Kubernetes, and a
// resolve may be using it.
func (w *world) operations(ctx context.Context, d Deps) ([]cluster.RunID, error) {
	var mu sync.Mutex
	var out []cluster.RunID
	err := parallel.Each(ctx, maxReads, slices.Collect(maps.Keys(w.known)),
		func(ctx context.Context, _ int, id cluster.RunID) error {
			body, _, err := d.Store.Get(ctx, manifest.JournalKey(id, 1))
			if failure.Is(err, failure.NotFound) {
				return nil
			}
			if err != nil {
				return failure.Annotate(err, "read journal", string(id))
			}
			// Decisions about a run with a damaged journal read it again, and keep what the run made.
			var first phase.Record
			if json.Unmarshal(body, &first) != nil {
				return nil
			}
			about, err := journal.ReadAbout(id, first)
			if err == nil && (about.Operation == journal.Restore || about.Operation == journal.Resolve) {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, id)
			}
			return nil
		})
	return out, err
}

func loadRun(ctx context.Context, d Deps, id cluster.RunID) (*run, error) {
	records, err := journal.NewStoreJournal(d.Store, manifest.JournalPrefix(id)).Records(ctx)
	if err != nil {
		return nil, err
	}
	return readRun(id, records)
}

// readLocks reads the lock of each run's cluster. Locks of runs that seem dead are watched, concurrently.
func (w *world) readLocks(ctx context.Context, d Deps) error {
	w.locks, w.unread = map[cluster.Name]runlock.Finding{}, map[cluster.Name]error{}
	names := map[cluster.Name]bool{}
	for _, r := range w.runs {
		names[r.Lock()] = true
	}
	var mu sync.Mutex
	return parallel.Each(ctx, maxReads, slices.Collect(maps.Keys(names)),
		func(ctx context.Context, _ int, name cluster.Name) error {
			found, err := w.readLock(ctx, d, name, func(held *runlock.Record) {
				mu.Lock()
				defer mu.Unlock()
				if d.Watching != nil {
					d.Watching(held)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failure.Is(err, failure.Corrupt):
				w.unread[name] = err
			case err != nil:
				return err
			case found.Record != nil:
				w.locks[name] = found
			}
			return nil
		})
}

// readLock watches only a relevant lock: that of one of the runs.
func (w *world) readLock(
	ctx context.Context, d Deps, name cluster.Name, watching func(*runlock.Record),
) (runlock.Finding, error) {
	record, _, err := runlock.Read(ctx, d.Store, name)
	switch {
	case failure.Is(err, failure.NotFound):
		return runlock.Finding{}, nil
	case err != nil:
		return runlock.Finding{}, err
	case w.runs[record.Owner.Run] == nil:
		return runlock.Finding{Record: record}, nil
	}
	return runlock.Observe(ctx, d.Store, name, watching)
}

// alive returns who holds the run's lock, or why that is unknown; "" if the run has ended or is dead.
func (w *world) alive(r *run) string {
	if err := w.unread[r.Lock()]; err != nil {
		return "it is unknown whether its run is alive: " + err.Error()
	}
	lock := w.locks[r.Lock()]
	if lock.Held(w.now) && lock.Record.Owner.Run == r.ID {
		return fmt.Sprintf("its run is alive: %s holds the lock until %s", lock.Record.Owner,
			lock.Record.FreeAt().UTC().Format(time.RFC3339))
	}
	return ""
}
