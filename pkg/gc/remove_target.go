package gc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// How long removing a target may take: its pods get their grace period, then EC2 detaches the volumes.
const (
	targetLockTTL  = 10 * time.Minute
	targetDeadline = 10 * time.Minute
	targetPoll     = time.Second
)

// inKubernetes reports whether Kubernetes deletes an item as part of its run's target.
func (i *Item) inKubernetes() bool {
	return i.Kind == KindCluster || i.Kind == KindClaim || i.Kind == KindPV
}

// removeTargets removes, one after another, the targets that the report selects, and reports whether there were any.
// Their EBS volumes are decided about afterwards.
func (s *sweep) removeTargets(ctx context.Context, r *Report) bool {
	outcome := map[cluster.RunID]error{}
	for i := range r.Items {
		it := &r.Items[i]
		if it.Action != ActionDelete || !it.inKubernetes() {
			continue
		}
		if _, done := outcome[it.Run]; !done {
			outcome[it.Run] = s.removeTarget(ctx, s.world.runs[it.Run])
		}
		it.done(outcome[it.Run])
	}
	return len(outcome) > 0
}

// removeTarget takes the cluster's lock first, so that no restore or resolve starts on the cluster, and checks again
// what exists. It returns when everything is gone and the volumes are detached.
func (s *sweep) removeTarget(ctx context.Context, r *run) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, targetDeadline,
		failure.New(failure.Limited, "remove target", r.Cluster.String(),
			"it still exists after %s", targetDeadline).
			WithHint("find the finalizer that keeps it, by kubectl describe of the cluster, its claims and volumes; "+
				"then run it again"))
	defer cancel()
	if err := s.world.locks[r.Cluster].Free(ctx, s.Store); err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	lock, err := runlock.Take(ctx, s.Store, r.Cluster, s.Owner, targetLockTTL,
		runlock.Notify{Lost: lose, Watching: s.Watching})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release(ctx)) }()
	found, err := s.world.kube.Leftover(ctx, r.Cluster, r.ID)
	switch {
	case err != nil:
		return err
	case found.Serves != "":
		return failure.New(failure.Conflict, "remove target", r.Cluster.String(), "%s", found.Serves)
	case found.UID != s.world.leftovers[r.ID].UID:
		return failure.New(failure.Conflict, "remove target", r.Cluster.String(),
			"the cluster has been recreated")
	}
	if err := s.world.kube.DeleteLeftover(ctx, found); err != nil {
		return err
	}
	return s.awaitGone(ctx, found)
}

// awaitGone repeats the deletion of what still exists, such as a claim that a StatefulSet made at the last moment.
func (s *sweep) awaitGone(ctx context.Context, found kube.RestoreLeftover) error {
	err := wait.Until(ctx, wait.Every(targetPoll), func() (bool, error) {
		left, err := s.world.kube.Leftover(ctx, found.Cluster, found.Run)
		if err == nil && left.Empty() {
			return true, nil
		}
		if err == nil && left.UID == "" && left.Serves == "" {
			err = s.world.kube.DeleteLeftover(ctx, left)
		}
		return err != nil && !failure.Transient(err), err
	})
	if err == nil {
		err = wait.Until(ctx, wait.Every(targetPoll), func() (bool, error) {
			volumes, err := s.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(found.Run)})
			attached := slices.ContainsFunc(volumes, func(v ebs.Volume) bool { return v.Instance != "" })
			return err == nil && !attached || err != nil && !failure.Transient(err), failure.Annotate(err,
				"find volumes", "run "+string(found.Run))
		})
	}
	if ended := wait.EndOf(err); ended != nil {
		return ended.Cause
	}
	return err
}
