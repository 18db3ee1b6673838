package restore

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// createCluster makes the target in recovery mode, unless it was made for this restore.
func (r *run) createCluster(ctx context.Context, _ *phase.Scope) error {
	if r.existing {
		return nil
	}
	return r.Kube.CreateCluster(ctx, r.manifest.Kubernetes.TidbCluster, r.opts.Target, r.opts.Run)
}

// deleteCluster deletes the target, if this run made it.
func (r *run) deleteCluster(ctx context.Context, s *phase.Scope) error {
	if r.existing || r.opts.KeepOnFailure {
		s.Note("cluster %s is kept", r.opts.Target)
		return nil
	}
	if r.fence.Taken(ctx) {
		s.Warn("cluster %s is kept: another run may have it by now", r.opts.Target)
		return nil
	}
	stay, listErr := r.Kube.Provisioned(ctx, r.opts.Target, r.opts.Run)
	err := r.Kube.DeleteCluster(ctx, r.opts.Target, r.opts.Run)
	switch {
	case listErr != nil:
		s.Warn("which volumes of PD stay is not known: %v", listErr)
	case len(stay) > 0:
		s.Warn("these persistent volumes, of PD, have the reclaim policy Retain and stay: %s", strings.Join(stay, ", "))
		r.leave("these persistent volumes stay, as their reclaim policy is Retain; delete them by hand: %s", strings.Join(stay, ", "))
	}
	return err
}

// awaitPD waits until a majority of PD's members are healthy and answer: with the address of one alone, its
// restart would look like the loss of PD.
func (r *run) awaitPD(ctx context.Context, _ *phase.Scope) error {
	return poll(ctx, "wait for PD", r.opts.Target.String(), func(ctx context.Context) (bool, error) {
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
