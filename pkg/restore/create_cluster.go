package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// remainsCluster is the cluster's key in Remains.
const remainsCluster = "cluster"

// createCluster creates the target in recovery mode, unless it exists for this restore. It removes the resolver's
// record of an earlier cluster of that name, which may be damaged.
func (r *run) createCluster(ctx context.Context, _ *phase.Scope) error {
	if r.target.existing {
		return nil
	}
	return r.target.create(ctx, r.backup.objects, r.making.Plan(), len(r.backup.Source.Stores))
}

// create creates the cluster from the source's objects.
func (t *target) create(ctx context.Context, objects json.RawMessage, plan volumes.Plan, stores int) error {
	if err := t.progress().Clear(ctx); err != nil {
		return err
	}
	text := fmt.Sprintf("cluster %s, not restored yet: %s", t.opts.Target, t.deletion())
	t.remains.Set(remainsCluster, func() string { return text })
	return t.kube.CreateCluster(ctx, objects, t.asTarget(plan, stores), t.planned(plan.Volumes)...)
}

// deletion describes how to delete what create created.
func (t *target) deletion() string {
	return fmt.Sprintf("tisnap restore abort %s --storage %s --yes deletes it", t.opts.Run, t.store.URL())
}

// progress is the resolver's record of its progress.
func (t *target) progress() *resolve.ProgressFile {
	return resolve.NewProgressFile(objstore.AskFirst(t.store), t.opts.Target, t.opts.Backup)
}

// deleteCluster deletes the target if this run created it.
func (r *run) deleteCluster(ctx context.Context, s *phase.Scope) error {
	if r.target.existing || r.keeps() {
		s.Note("cluster %s is kept", r.opts.Target)
		return nil
	}
	left, err := r.target.delete(ctx, s)
	if left != "" {
		r.leave("%s", left)
	}
	return err
}

// delete deletes what create created, and returns what may be left of it; "" if nothing is.
func (t *target) delete(ctx context.Context, s *phase.Scope) (left string, err error) {
	if err := t.kube.DeleteCluster(ctx, t.opts.Target, t.opts.Run, t.leaving); err != nil {
		t.bound = failure.Is(err, failure.Conflict) // it serves or is another one: its volumes are in use
		return fmt.Sprintf("cluster %s may be left: %s", t.opts.Target, t.deletion()), err
	}
	t.remains.Clear(remainsCluster)
	stay, err := t.kube.Remaining(ctx, t.opts.Target, t.opts.Run)
	switch {
	case err != nil:
		s.Warn("could not determine which of PD's volumes are kept: %v", err)
	case len(stay) > 0:
		s.Warn("these persistent volumes, of PD, have the reclaim policy Retain and stay: %s", strings.Join(stay, ", "))
		left = "these persistent volumes stay, as their reclaim policy is Retain; delete them by hand: " +
			strings.Join(stay, ", ")
	}
	return left, nil
}

// kept describes the target when the lock is lost.
func (t *target) kept() string {
	return fmt.Sprintf("cluster %s is kept: another run may have it by now", t.opts.Target)
}

// keeps reports whether a failed run keeps what it made.
func (r *run) keeps() bool { return r.keepsOnFailure() || r.data.serves.Load() }

// keepsOnFailure reports whether it does by the user's choice, or as its target, which an earlier process has taken out
// of recovery mode, may serve.
func (r *run) keepsOnFailure() bool {
	return r.opts.KeepOnFailure && !r.earlier.discarded || r.target.leftRecovery
}

// target is the cluster to create, in package kube's terms.
func (t *target) asTarget(plan volumes.Plan, stores int) kube.Target {
	return kube.Target{
		Name: t.opts.Target, Run: t.opts.Run, Stores: stores, SizesGiB: plan.SizesGiB(),
		KeepServiceSettings: t.opts.KeepServiceSettings, Changes: t.opts.Changes,
	}
}

// planned are volumes in package kube's terms, without ids.
func (t *target) planned(volumes []Volume) []kube.RestoredVolume {
	out := make([]kube.RestoredVolume, len(volumes))
	for i, v := range volumes {
		out[i] = kube.RestoredVolume{
			Cluster: t.opts.Target, Instance: t.instance, Run: t.opts.Run, Ordinal: v.Ordinal, Role: v.Role,
			MountPath: v.Mount, Zone: v.Zone, SizeGiB: v.Spec.SizeGiB, Claim: v.Claim, Object: v.Object,
			Expires: t.opts.Tags[ebs.TagDrillExpires],
			Filled:  v.Filled,
		}
	}
	return out
}

// restored are the run's volumes in package kube's terms.
func (r *run) restored() []kube.RestoredVolume {
	made := r.making.Volumes()
	out := r.target.planned(made)
	for i, v := range made {
		out[i].Volume = v.ID
	}
	return out
}

// awaitPD waits until a majority of PD's members are healthy and answer: with a single member's address, its restart
// would look like the loss of PD.
func (r *run) awaitPD(ctx context.Context, s *phase.Scope) error {
	err := r.target.poll(ctx, s, "wait for PD", func(ctx context.Context) (bool, error) {
		tc, err := r.target.cluster(ctx)
		if err != nil || len(tc.PDAddresses) == 0 || 2*tc.PDReady <= tc.PDReplicas {
			return false, err
		}
		err = r.pd.connect(ctx, tc.PDAddresses)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	r.tagPDVolumes(ctx, s)
	return r.findProgress(ctx, s)
}

// pdVolumes lists the volumes of PD in a cluster that the run created.
func (t *target) pdVolumes(ctx context.Context) ([]cluster.VolumeID, error) {
	if t.existing {
		return nil, nil
	}
	return t.kube.MadeForTarget(ctx, t.opts.Target, t.opts.Run)
}

// markRecovering marks PD as recovering and raises its ts above those in the data, before the first TiKV starts: TiKV
// reads the mark only at its start, and a commit ts below one in the data crashes it later.
func (r *run) markRecovering(ctx context.Context, s *phase.Scope) error {
	if err := r.pd.mark(ctx); err != nil {
		return err
	}
	return r.raiseTS(ctx, s)
}

// raiseTS raises PD's timestamps above all in the data.
func (r *run) raiseTS(ctx context.Context, _ *phase.Scope) error {
	if r.data.resolved {
		return nil
	}
	return r.pd.raise(ctx, max(r.backup.MaxTS, r.backup.BackupTS))
}
