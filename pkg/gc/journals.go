package gc

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// old lists the runs whose journals have no record newer than a time, by the storage's clock. A compacted journal's
// object, which is as new as its compaction, does not count.
func (w *world) old(before time.Time) []cluster.RunID {
	var out []cluster.RunID
	for id := range w.known {
		if w.written[id].Before(before) {
			out = append(out, id)
		}
	}
	return out
}

// journals decides about the journals of runs that ended before a time. It runs last: only its journal explains what a
// run with an item in the report left in EC2, Kubernetes or the storage. Restores come before resolves.
func (j *decider) journals(r *Report, before time.Time) []Item {
	left := map[cluster.RunID]bool{}
	for _, i := range r.Items {
		left[i.Run] = true
	}
	var out []Item
	kept := map[cluster.Name]cluster.RunID{} // restores whose journals stay
	for _, operation := range journal.Operations() {
		for _, id := range slices.Sorted(maps.Keys(j.runs)) {
			one := j.runs[id]
			if one.Operation != operation {
				continue
			}
			it, old := Item{}, j.written[id].Before(before) && one.Last.Before(before)
			if old {
				it = j.journal(one, left[id], len(r.Missing) > 0, before)
			}
			if restore := kept[one.Cluster]; it.Action == ActionDelete && operation == journal.Resolve &&
				restore != "" {
				it = it.decided(ActionKeep, "it may have finished restore %s, whose journal stays", restore)
			}
			if old {
				out = append(out, it)
			}
			if operation == journal.Restore && it.Action != ActionDelete {
				kept[one.Cluster] = id
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.doubts)) {
		if j.written[id].Before(before) {
			out = append(out, Item{Kind: KindJournal, ID: string(id), Run: id}.decided(ActionKeep, "%s", j.doubts[id]))
		}
	}
	return out
}

// journal decides about a journal that is old enough to delete.
func (j *decider) journal(r *run, left, elsewhere bool, before time.Time) Item {
	it := Item{Kind: KindJournal, ID: string(r.ID), Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String()}
	switch {
	case j.unread[r.Lock()] != nil:
		return it.decided(ActionKeep, "it is unknown whether its run is alive: %v", j.unread[r.Lock()])
	case j.owns(r):
		return it.decided(ActionInUse, "its run had the cluster's lock last")
	case !r.Ended:
		return it.decided(ActionKeep, "its run is unfinished: resume it, or undo it with: tisnap runs abort %s", r.ID)
	case left:
		return it.decided(ActionInUse, "something that its run made still exists")
	case j.backupOf(r):
		return it.decided(ActionInUse, "its backup still exists")
	case r.unfinished() && r.Target && j.noLeftovers != nil:
		return it.decided(ActionKeep, "it is unknown what its run left in Kubernetes: %v", j.noLeftovers)
	case r.unfinished() && r.Target && (r.KubernetesUID == "" || r.KubernetesUID != j.kubernetesUID):
		return it.decided(ActionKeep, "its run's leftovers may be in Kubernetes cluster %s (API server %s)",
			orUnknown(r.KubernetesUID), orUnknown(r.Kubernetes))
	case !r.Effects: // EC2 has nothing of it
	case r.Region != j.region:
		return it.decided(ActionKeep, "its run's leftovers, if any, are in region %s, and this is %s",
			orUnknown(r.Region),
			j.region)
	case elsewhere:
		return it.decided(ActionKeep, "snapshots of sealed backups are missing: this may be another account")
	}
	return it.decided(ActionDelete, "its run ended before %s", before.UTC().Format(time.DateOnly))
}

// owns reports whether the run had its cluster's lock last.
func (j *decider) owns(r *run) bool {
	lock := j.locks[r.Lock()].Record
	return lock != nil && lock.Owner.Run == r.ID
}

// backupOf reports whether the storage has the run's backup, or one of that name without a known run.
func (j *decider) backupOf(r *run) bool {
	e, there := j.backups[r.Backup]
	return there && r.makes() && (e.Run == r.ID || e.Run == "")
}

// removeJournals deletes the journals selected in the report. It keeps one whose run has the cluster's lock by now, and
// a resolve's beside a restore's that could not be deleted.
func (s *sweep) removeJournals(ctx context.Context, r *Report) {
	left := map[string]bool{} // clusters of restores
	for _, resolves := range []bool{false, true} {
		for i := range r.Items {
			it := &r.Items[i]
			if it.Kind != KindJournal || it.Action != ActionDelete ||
				(s.world.runs[it.Run].Operation == journal.Resolve) != resolves {
				continue
			}
			if resolves && left[it.Cluster] {
				*it = it.decided(ActionKeep, "it may have finished a restore whose journal stays")
				continue
			}
			it.done(s.removeJournal(ctx, it.Run))
			left[it.Cluster] = left[it.Cluster] || it.Action != ActionDeleted
		}
	}
}

func (s *sweep) removeJournal(ctx context.Context, id cluster.RunID) error {
	lock, _, err := runlock.Read(ctx, s.Store, s.world.runs[id].Lock())
	switch {
	case failure.Is(err, failure.NotFound):
	case err != nil:
		return err
	case lock.Owner.Run == id:
		return failure.New(failure.Conflict, "delete journal", string(id), "its run has had the lock since: %s",
			lock.Owner)
	}
	if err := ctx.Err(); err != nil {
		return failure.Wrap(err, failure.Limited, "delete journal", string(id))
	}
	return failure.Annotate(journal.NewStoreJournal(s.Store, manifest.JournalPrefix(id)).Remove(ctx), "delete journal",
		string(id))
}
