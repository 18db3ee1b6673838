package gc

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// defaultRate is that of TiDB Operator's own cleaner (snapshotsDeleteRatio): deletions must not delay other users of
// the account, above all a backup's cut.
const defaultRate = 1.0

// maxDeletes bounds the concurrent deletions.
const maxDeletes = 8

// sweep executes a plan.
type sweep struct {
	Deps
	catalog catalog.Catalog
	world   *world
	pace    *rate.Limiter
}

func newSweep(d Deps, w *world, perSecond float64) *sweep {
	if perSecond <= 0 {
		perSecond = defaultRate
	}
	return &sweep{
		Deps: d, catalog: catalog.Catalog{Store: d.Store}, world: w, pace: rate.NewLimiter(rate.Limit(perSecond), 1),
	}
}

// sweep deletes what the report selects and records each item's outcome in it. It tries all, whatever fails. It deletes
// nothing of a run that turns out to be alive, or of a backup that turns out to be sealed.
func (s *sweep) sweep(ctx context.Context, r *Report) {
	refused := s.refusals(ctx, r)
	var doomed []*Item
	for i := range r.Items {
		if it := &r.Items[i]; it.Action == ActionDelete && it.Kind != KindBackup && !it.record() &&
			!it.inKubernetes() {
			doomed = append(doomed, it)
		}
	}
	err := parallel.Each(ctx, maxDeletes, doomed, func(ctx context.Context, _ int, it *Item) error {
		if err := refused[it.Run]; err != nil {
			it.left(err)
			return nil
		}
		if err := s.pace.Wait(ctx); err != nil {
			it.left(failure.Wrap(err, failure.Limited, "delete", it.ID))
			return nil
		}
		// A sweep may take hours: the run may have been resumed since the first deletion.
		if err := s.refusal(ctx, it.Run); err != nil {
			it.left(err)
			return nil
		}
		it.done(s.delete(ctx, it))
		return nil
	})
	for _, it := range doomed {
		if it.Action == ActionDelete { // not started, or it panicked
			it.left(failure.Annotate(err, "delete", it.ID))
		}
	}
	for i := range r.Items {
		it := &r.Items[i]
		if it.Action != ActionDelete || it.record() || it.inKubernetes() {
			continue
		}
		if err := refused[it.Run]; err != nil {
			it.left(err)
			continue
		}
		if why := r.holds(it.Backup); why != "" {
			*it = it.decided(ActionKeep, "%s", why)
			continue
		}
		it.done(s.catalog.Remove(ctx, it.Backup, it.Run))
	}
}

func (s *sweep) delete(ctx context.Context, it *Item) error {
	switch it.Kind {
	case KindSnapshot:
		return s.EBS.DeleteSnapshot(ctx, cluster.SnapshotID(it.ID))
	case KindVolume:
		return s.EBS.DeleteVolume(ctx, cluster.VolumeID(it.ID))
	case KindFastRestore:
		return s.EBS.DisableFastRestore(ctx, []cluster.SnapshotID{cluster.SnapshotID(it.ID)}, []cluster.Zone{it.Zone})
	case KindBackup, KindCluster, KindClaim, KindPV, KindJournal, KindReport, KindDrill:
	}
	return failure.New(failure.Unknown, "delete", it.ID, "no call deletes a %s", it.Kind)
}

// record reports whether the item is only what is written about a run.
func (i *Item) record() bool { return i.Kind == KindJournal || i.Kind == KindReport }

func (i *Item) done(err error) {
	if err != nil {
		i.left(err)
		return
	}
	i.Action = ActionDeleted
}

func (i *Item) left(err error) {
	i.Action, i.Error, i.err = ActionLeft, err.Error(), err
}

// refusals checks each run once more, right before anything of it is deleted, and buries its backup, so that a run that
// wakes up cannot seal it.
func (s *sweep) refusals(ctx context.Context, r *Report) map[cluster.RunID]error {
	out := map[cluster.RunID]error{}
	for _, it := range r.Items {
		if _, done := out[it.Run]; done || it.Action != ActionDelete || it.record() {
			continue
		}
		out[it.Run] = s.refusal(ctx, it.Run)
	}
	return out
}

// refusal returns why nothing of a run may be deleted now. It may be called repeatedly.
func (s *sweep) refusal(ctx context.Context, id cluster.RunID) error {
	r := s.world.runs[id]
	if r == nil {
		return nil // its backup is already buried
	}
	lock, _, err := runlock.Read(ctx, s.Store, r.Lock())
	switch {
	case failure.Is(err, failure.NotFound):
	case err != nil:
		return err
	case lock.Owner.Run == id && lock.Held(time.Now()):
		found := s.world.locks[r.Lock()]
		if !found.Dead {
			return failure.New(failure.Conflict, "delete", "what run "+string(id)+" left", "it is alive: %s",
				lock.Owner)
		}
		if err := found.Free(ctx, s.Store); err != nil {
			return failure.Annotate(err, "delete", "what run "+string(id)+" left")
		}
	}
	if e, there := s.world.backups[r.Backup]; r.makes() && there &&
		e.State == catalog.StateUnsealed {
		return s.catalog.Bury(ctx, r.Backup, r.ID, "gc: "+r.fate(), true)
	}
	return nil
}
