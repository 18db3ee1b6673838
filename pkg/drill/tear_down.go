package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/wait"
)

// tearDown removes what the drill made: of each restore the cluster, its claims and persistent volumes, then its EBS
// volumes; then probes outside of the cage; then the cage. That goes last, so that there is one as long as there is
// anything.
func (r *run) tearDown(ctx context.Context, s *phase.Scope) error {
	err := wait.Reason(wait.Until(ctx, wait.Growing(r.opts.Poll, time.Minute), func() (bool, error) {
		err := r.remove(ctx, s)
		return err == nil || !failure.Transient(err), err
	}))
	if err != nil {
		r.result.TearDown, r.result.Left = Left, failure.Line(err.Error())
		return err
	}
	r.result.TearDown, r.result.Left = Gone, ""
	return nil
}

func (r *run) remove(ctx context.Context, s *phase.Scope) error {
	found, err := r.findCage(ctx)
	if err != nil {
		return err
	}
	uid := r.made.cage.UID
	if found != nil {
		uid = found.UID
	}
	// The last one first: what earlier ones made of the same name is gone, except for volumes.
	for _, t := range slices.Backward(r.made.targets) {
		if err := r.removeTarget(ctx, s, t, uid); err != nil {
			return err
		}
	}
	if outside := r.made.cage.Outside; outside != "" {
		if err := r.Cages.RemoveProbes(ctx, r.opts.Run, outside); err != nil {
			return err
		}
	}
	if found == nil {
		return nil
	}
	return r.Cages.Remove(ctx, *found)
}

// removeTarget takes the lock of the restored cluster first: a restore that was only suspended changes nothing from
// then on.
func (r *run) removeTarget(
	ctx context.Context, s *phase.Scope, t journal.DrillTarget, namespace string,
) (err error) {
	if t.Run == "" || t.Cluster.Name == "" {
		return failure.New(failure.Corrupt, "remove drill", string(r.opts.Run), "its journal names no restore")
	}
	fence := runlock.NewFence(r.Store, t.Cluster, r.opts.Owner)
	err = fence.Take(ctx, runner.LockTTL, runlock.Notify{
		Lost:     func(error) {}, // the fence notices
		Watching: func(held *runlock.Record) { s.Note("%s", held.Watching()) },
	})
	if err != nil {
		return failure.Annotate(err, "lock restored cluster", t.Cluster.String())
	}
	taken := time.Now()
	defer func() { err = errors.Join(err, fence.Release(ctx)) }()
	ctx = fenced.With(ctx, fence.Check)
	if namespace != "" {
		if err := r.Kube.RemoveCaged(ctx, t.Cluster, t.Run, namespace); err != nil {
			return err
		}
	}
	hidden, err := r.mayBeHidden(ctx, t.Run)
	if err != nil {
		return err
	}
	until := taken
	if hidden {
		until = taken.Add(r.opts.Visibility)
		s.Note("waiting until %s for volumes that an unanswered request may have made",
			until.UTC().Format(time.RFC3339))
	}
	return r.deleteVolumes(ctx, t, until)
}

// mayBeHidden reports whether the restore died while it asked for volumes, of which EC2 may not show all yet.
func (r *run) mayBeHidden(ctx context.Context, id cluster.RunID) (bool, error) {
	restore, err := runs.Read(ctx, r.Store, id)
	switch {
	case failure.Is(err, failure.NotFound):
		return false, nil // it asked for nothing
	case failure.Is(err, failure.Corrupt):
		return true, nil
	case err != nil:
		return false, failure.Annotate(err, "read the journal of the restore", string(id))
	}
	h := restore.History
	return !h.Ended && h.Began(journal.StepCreateVolumes) && !h.Done(journal.StepCreateVolumes), nil
}

// deleteVolumes deletes the volumes with the restore's tag until EC2 shows none, and none can appear any more.
func (r *run) deleteVolumes(ctx context.Context, t journal.DrillTarget, until time.Time) error {
	err := wait.Until(ctx, wait.Every(r.opts.Poll), func() (bool, error) {
		asked := time.Now()
		found, err := r.volumesOf(ctx, t.Run)
		if err != nil {
			return !failure.Transient(err), err
		}
		if len(found) == 0 && !asked.Before(until) {
			return true, nil
		}
		err = r.deleteThese(ctx, found)
		return err != nil && !failure.Transient(err) && !failure.Is(err, errAttached), err
	})
	return failure.Annotate(wait.Reason(err), "delete volumes", "run "+string(t.Run))
}

// volumesOf lists the volumes that the restore made and that exist.
func (r *run) volumesOf(ctx context.Context, id cluster.RunID) ([]cluster.VolumeID, error) {
	found, err := r.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(id)})
	if err != nil {
		return nil, err
	}
	var out []cluster.VolumeID
	for _, v := range found {
		if v.Tags[ebs.TagStorage] == r.runner.StorageID() && v.Tags[ebs.TagDrill] == string(r.opts.Run) &&
			v.State != ebs.VolumeDeleting && v.State != ebs.VolumeDeleted {
			out = append(out, v.ID)
		}
	}
	slices.Sort(out)
	return out, nil
}

// errAttached is the kind of a volume that is still attached.
const errAttached = failure.Conflict

// deleteThese deletes volumes, but none that a persistent volume names: those of the drill are gone by now.
func (r *run) deleteThese(ctx context.Context, ids []cluster.VolumeID) error {
	named, err := r.Kube.Handles(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if pv, is := named[id]; is {
			return failure.New(failure.Unready, "delete volume", string(id),
				"persistent volume %s names it, which is not the drill's", pv).
				WithHint("find out who uses it: kubectl get pv %s -o yaml", pv)
		}
	}
	left := ebs.DeleteEach(ctx, ids, r.EBS.DeleteVolume, nil)
	if len(left) == 0 {
		return nil
	}
	first := slices.Sorted(maps.Keys(left))[0]
	return failure.Annotate(left[first], "delete volume", fmt.Sprintf("%s, and %d more", first, len(left)-1))
}
