package restore

import (
	"context"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// createCluster creates the target in recovery mode, unless it exists for this restore. It removes the resolver's
// record of an earlier cluster of that name, which may be damaged.
func (r *run) createCluster(ctx context.Context, _ *phase.Scope) error {
	if r.target.existing {
		return nil
	}
	if err := r.progress().Clear(ctx); err != nil {
		return err
	}
	r.noteCluster()
	plan := r.making.Plan()
	return r.Kube.CreateCluster(ctx, r.backup.objects, r.target.asTarget(*plan, len(r.backup.Source.Stores)),
		r.target.planned(plan.Volumes)...)
}

// deleteCluster deletes the target if this run created it.
func (r *run) deleteCluster(ctx context.Context, s *phase.Scope) error {
	if r.target.existing || r.keeps() {
		s.Note("cluster %s is kept", r.opts.Target)
		return nil
	}
	if err := r.Kube.DeleteCluster(ctx, r.opts.Target, r.opts.Run, r.target.leaving); err != nil {
		r.target.bound = failure.Is(err, failure.Conflict) // it serves or is another one: its volumes are in use
		r.leave("cluster %s may be left: tisnap restore abort %s --storage %s --yes deletes it", r.opts.Target,
			r.opts.Run, r.Store.URL())
		return err
	}
	r.Remains.Clear(remainsCluster)
	stay, err := r.Kube.Remaining(ctx, r.opts.Target, r.opts.Run)
	switch {
	case err != nil:
		s.Warn("could not determine which of PD's volumes are kept: %v", err)
	case len(stay) > 0:
		s.Warn("these persistent volumes, of PD, have the reclaim policy Retain and stay: %s", strings.Join(stay, ", "))
		r.leave("these persistent volumes stay, as their reclaim policy is Retain; delete them by hand: %s",
			strings.Join(stay, ", "))
	}
	return nil
}

// keptCluster describes the target when the lock is lost.
func (r *run) keptCluster() string {
	return fmt.Sprintf("cluster %s is kept: another run may have it by now", r.opts.Target)
}

// keeps reports whether a failed run keeps what it made.
func (r *run) keeps() bool { return r.opts.KeepOnFailure || r.data.serves.Load() }

// target is the cluster to create, in package kube's terms.
func (t *target) asTarget(plan volumes.Plan, stores int) kube.Target {
	return kube.Target{
		Name: t.opts.Target, Run: t.opts.Run, Stores: stores, SizesGiB: plan.SizesGiB(),
		KeepServiceSettings: t.opts.KeepServiceSettings, Changes: t.opts.Changes,
	}
}

// planned are volumes in package kube's terms, without ids: they may be made at this moment.
func (t *target) planned(volumes []Volume) []kube.RestoredVolume {
	out := make([]kube.RestoredVolume, len(volumes))
	for i := range volumes {
		out[i] = t.asPlanned(&volumes[i])
	}
	return out
}

func (t *target) asPlanned(v *Volume) kube.RestoredVolume {
	return kube.RestoredVolume{
		Cluster: t.opts.Target, Instance: t.instance, Run: t.opts.Run, Ordinal: v.Ordinal, Role: v.Role,
		MountPath: v.Mount, Zone: v.Zone, SizeGiB: v.Spec.SizeGiB, Claim: v.Claim, Object: v.Object,
	}
}

// restored are the run's volumes in package kube's terms.
func (r *run) restored() []kube.RestoredVolume {
	made := r.making.Plan().Volumes
	out := make([]kube.RestoredVolume, len(made))
	for i := range made {
		out[i] = r.target.asPlanned(&made[i])
		out[i].Volume = made[i].ID
	}
	return out
}

// awaitPD waits until a majority of PD's members are healthy and answer: with a single member's address, its restart
// would look like the loss of PD.
func (r *run) awaitPD(ctx context.Context, s *phase.Scope) error {
	err := r.target.poll(ctx, s, "wait for PD", func(ctx context.Context) (bool, error) {
		tc, err := r.Kube.Cluster(ctx, r.opts.Target)
		if err != nil || len(tc.PDAddresses) == 0 || 2*tc.PDReady <= tc.PDReplicas {
			return false, err
		}
		p, err := r.OpenPD(ctx, tc.PDAddresses)
		if err != nil {
			return false, err
		}
		r.pd.PD = p
		return true, nil
	})
	if err != nil {
		return err
	}
	r.tagPDVolumes(ctx, s)
	return r.findProgress(ctx, s)
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
