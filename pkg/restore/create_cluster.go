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

// createCluster makes the target in recovery mode, unless it was made for this restore. What the resolver wrote down of a
// cluster that had the name before, which may be damaged, is removed.
func (r *run) createCluster(ctx context.Context, _ *phase.Scope) error {
	if r.existing {
		return nil
	}
	if err := r.progress().Clear(ctx); err != nil {
		return err
	}
	r.noteCluster()
	return r.Kube.CreateCluster(ctx, r.manifest.Kubernetes.TidbCluster, r.target(*r.volumes.Plan()))
}

// deleteCluster deletes the target, if this run made it.
func (r *run) deleteCluster(ctx context.Context, s *phase.Scope) error {
	if r.existing || r.keeps() {
		s.Note("cluster %s is kept", r.opts.Target)
		return nil
	}
	if err := r.Kube.DeleteCluster(ctx, r.opts.Target, r.opts.Run, r.leaving); err != nil {
		r.bound = failure.Is(err, failure.Conflict) // it serves, or is another one: its volumes are in use
		r.leave("cluster %s may be left: tisnap restore abort %s --storage %s --yes deletes it", r.opts.Target, r.opts.Run, r.Store.URL())
		return err
	}
	r.Remains.Clear(remainsCluster)
	stay, err := r.Kube.Remaining(ctx, r.opts.Target, r.opts.Run)
	switch {
	case err != nil:
		s.Warn("which volumes of PD stay is not known: %v", err)
	case len(stay) > 0:
		s.Warn("these persistent volumes, of PD, have the reclaim policy Retain and stay: %s", strings.Join(stay, ", "))
		r.leave("these persistent volumes stay, as their reclaim policy is Retain; delete them by hand: %s", strings.Join(stay, ", "))
	}
	return nil
}

// keptCluster is what is said of the target when the lock is lost.
func (r *run) keptCluster() string {
	return fmt.Sprintf("cluster %s is kept: another run may have it by now", r.opts.Target)
}

// keeps reports whether what the run has made stays although it failed.
func (r *run) keeps() bool { return r.opts.KeepOnFailure || r.serves.Load() }

// target is the cluster that the run makes, in Kubernetes' words.
func (r *run) target(plan volumes.Plan) kube.Target {
	return kube.Target{
		Name: r.opts.Target, Run: r.opts.Run, Stores: len(r.manifest.Source.Stores), SizesGiB: plan.SizesGiB(),
		KeepServiceSettings: r.opts.KeepServiceSettings, Changes: r.opts.Changes,
	}
}

// restored are volumes in Kubernetes' words.
func (r *run) restored(volumes []Volume) []kube.RestoredVolume {
	out := make([]kube.RestoredVolume, len(volumes))
	for i := range volumes {
		out[i] = r.asRestored(&volumes[i])
	}
	return out
}

func (r *run) asRestored(v *Volume) kube.RestoredVolume {
	return kube.RestoredVolume{
		Cluster: r.opts.Target, Instance: r.instance, Run: r.opts.Run, Ordinal: v.Ordinal, Role: v.Role, MountPath: v.Mount,
		Volume: v.ID, Zone: v.Zone, SizeGiB: v.Spec.SizeGiB, Claim: v.Claim, Object: v.Object,
	}
}

// awaitPD waits until a majority of PD's members are healthy and answer: with the address of one alone, its
// restart would look like the loss of PD.
func (r *run) awaitPD(ctx context.Context, s *phase.Scope) error {
	err := r.pollCluster(ctx, s, "wait for PD", func(ctx context.Context) (bool, error) {
		tc, err := r.Kube.Cluster(ctx, r.opts.Target)
		if err != nil || 2*len(tc.PDAddresses) <= tc.PDReplicas {
			return false, err
		}
		p, err := r.OpenPD(ctx, tc.PDAddresses)
		if err != nil {
			return false, err
		}
		r.pd = p
		return true, nil
	})
	if err != nil {
		return err
	}
	r.tagPDVolumes(ctx, s)
	return r.findProgress(ctx, s)
}

// markRecovering marks PD as recovering and raises its ts above those in the data. It has to be over before
// the first TiKV starts: TiKV asks for the mark once, at its start, and a commit ts below one in the data kills it later.
func (r *run) markRecovering(ctx context.Context, _ *phase.Scope) error {
	target := r.opts.Target.String()
	if err := r.pd.MarkRecovering(ctx); err != nil {
		return failure.Annotate(err, "mark recovering", target)
	}
	marked, err := r.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	if !marked {
		return failure.New(failure.Unknown, "mark recovering", target, "PD took the mark and does not have it")
	}
	return r.raiseTS(ctx, nil)
}

// raiseTS makes PD's timestamps larger than every one in the data.
func (r *run) raiseTS(ctx context.Context, _ *phase.Scope) error {
	if r.resolved {
		return nil
	}
	target := r.opts.Target.String()
	ts := max(r.manifest.MaxTS, r.manifest.BackupTS)
	if err := r.pd.RaiseTS(ctx, ts); err != nil {
		return failure.Annotate(err, "raise timestamp", target)
	}
	now, err := r.pd.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", target)
	}
	if now <= ts {
		return failure.New(failure.Unknown, "raise timestamp", target, "PD gives %s, which is not above %s", now, ts)
	}
	return nil
}
