package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runs"
)

// preflight checks everything that could fail later and changes nothing: the account, the volumes' parameters
// and zones, the target, the snapshots, quotas and permissions.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if err := r.checkTolerated(); err != nil {
		return err
	}
	if err := r.checkTiFlash(s); err != nil {
		return err
	}
	plan, err := r.planVolumes(ctx)
	if err != nil {
		return err
	}
	dropped, err := r.nameVolumes(plan)
	if err != nil {
		return err
	}
	if r.runner.Resumed() { // what is made already is not to be asked for again
		if err := r.planner().CheckSnapshots(ctx, &plan); err != nil {
			return err
		}
		r.volumes.Begin(plan)
		if err := r.fast.Check(ctx, plan.Volumes, ebs.AccountQuotas{}); err != nil {
			return err
		}
		r.announce(s)
		return r.findTarget(ctx)
	}
	if err := r.checkTarget(ctx); err != nil {
		return err
	}
	if err := r.planner().CheckSnapshots(ctx, &plan); err != nil {
		return err
	}
	return r.begin(ctx, s, plan, func() error { return r.checkKubernetes(ctx, s, plan, dropped) })
}

// begin finds out whether EC2 would make the volumes, and between, whether anything else would refuse them: then they are
// what the run makes.
func (r *run) begin(ctx context.Context, s *phase.Scope, plan volumes.Plan, between ...func() error) error {
	if err := r.planner().CheckQuotas(ctx, s, plan, r.fast); err != nil {
		return err
	}
	for _, check := range between {
		if err := check(); err != nil {
			return err
		}
	}
	if err := r.planner().Probe(ctx, s, plan); err != nil {
		return err
	}
	r.volumes.Begin(plan)
	r.announce(s)
	return nil
}

// checkKubernetes asks whether the target may be made, and lets the API server check all that will be.
func (r *run) checkKubernetes(ctx context.Context, s *phase.Scope, plan volumes.Plan, dropped []string) error {
	if err := r.Kube.Allowed(ctx, r.opts.Target.Namespace); err != nil {
		return err
	}
	if err := r.Kube.DryRun(ctx, r.manifest.Kubernetes.TidbCluster, r.target(plan), r.restored(plan.Volumes), r.existing); err != nil {
		return err
	}
	if len(dropped) > 0 && !r.existing {
		s.Warn("settings of the source's services are not in the copy (--keep-service-settings keeps them): %s", strings.Join(dropped, "; "))
	}
	return nil
}

// planVolumes says which volumes are made, in which account, and where.
func (r *run) planVolumes(ctx context.Context) (volumes.Plan, error) {
	account, err := r.planner().CheckAccount(ctx)
	r.result.Account = account
	if err != nil {
		return volumes.Plan{}, err
	}
	plan, err := r.planner().Plan(ctx)
	plan.Account = account
	return plan, err
}

// nameVolumes says under which names Kubernetes will know the volumes, and which settings of the source's services the target
// does not get.
func (r *run) nameVolumes(plan volumes.Plan) (dropped []string, err error) {
	checked, err := kube.CheckRestored(r.manifest.Kubernetes.TidbCluster, r.target(plan), r.restored(plan.Volumes))
	if err != nil {
		return nil, err
	}
	for i, names := range checked.Names {
		plan.Volumes[i].Names = names
	}
	return checked.Dropped, nil
}

// targetExists refuses a cluster that somebody uses. A restore that is run again after its process was killed once all was
// done, and before it said so, ends here, and so does one that failed with its cluster serving: the error names the run.
func (r *run) targetExists(ctx context.Context) error {
	if done, said := r.restoredBy(ctx); done != nil {
		return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "the cluster exists: %s", said).
			WithHint("see what the run did: tisnap runs describe %s; for one more copy choose another --to", done.ID)
	}
	if failed, err := runs.Resolved(ctx, r.Store, r.opts.Target); err == nil && failed != nil && !r.elsewhereIs(failed) { // it is only to say more
		return failure.New(failure.Conflict, "check target", r.opts.Target.String(),
			"the cluster exists: run %s has restored the data of backup %s to it, and failed at %s, before its end", failed.ID, failed.Backup,
			failed.Last.UTC().Format(time.RFC3339)).
			WithHint("finish it with: tisnap resolve %s --backup %s; for one more copy choose another --to", r.opts.Target, failed.Backup)
	}
	return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "the cluster exists").
		WithHint("choose another --to, or make it with spec.recoveryMode: true")
}

// restoredBy is the run that has restored the target, and what to say of it; nil if it is not known.
func (r *run) restoredBy(ctx context.Context) (done *runs.Run, said string) {
	done, err := runs.Restored(ctx, r.Store, r.opts.Target)
	if err != nil || done == nil || r.elsewhereIs(done) {
		return nil, "" // it is only to say more
	}
	return done, fmt.Sprintf("run %s has restored backup %s to it, and ended at %s", done.ID, done.Backup, done.Last.UTC().Format(time.RFC3339))
}

// elsewhereIs reports whether the cluster of that name that a run restored is known to be in another Kubernetes cluster.
func (r *run) elsewhereIs(other *runs.Run) bool {
	_, err := other.About.SameCluster(other.ID, &journal.About{KubernetesUID: r.kubernetesUID})
	return err != nil
}

// checkTarget accepts a name that is free, or a cluster made for this restore: in recovery mode, of the
// backup's shape, and without a store of its own.
func (r *run) checkTarget(ctx context.Context) error {
	r.existing, r.instance, r.given = false, "", journal.GivenTarget{} // of a try before
	tc, err := r.Kube.Cluster(ctx, r.opts.Target)
	if failure.Is(err, failure.NotFound) {
		return r.noClaims(ctx, "")
	}
	if err != nil {
		return err
	}
	stores := len(r.manifest.Source.Stores)
	switch {
	case r.opts.Changes.Any():
		return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "the cluster exists, and --from-manifest and --patch are for one that the restore makes").
			WithHint("leave them out, or choose another --to")
	case !tc.RecoveryMode:
		return r.targetExists(ctx)
	case tc.TiKVReplicas != stores:
		return failure.New(failure.Unready, "check target", r.opts.Target.String(), "it has %d TiKV replicas and the backup has %d stores", tc.TiKVReplicas, stores).
			WithHint("set spec.tikv.replicas to %d: scale after the restore", stores)
	case len(tc.Stores) > 0 && tc.Run != "":
		return r.notRestored(tc.Run, fmt.Sprintf("%d TiKV stores", len(tc.Stores)))
	case len(tc.Stores) > 0:
		return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "it has %d TiKV stores already", len(tc.Stores)).
			WithHint("choose another --to, or delete the cluster and make it again: a restore needs one that never ran")
	}
	if err := r.checkShape(tc); err != nil {
		return err
	}
	r.existing, r.instance, r.given = true, tc.Instance, journal.GivenTarget{UID: uidOf(tc)}
	return r.noClaims(ctx, tc.Run)
}

// noClaims refuses PVCs of the target's name: the Operator would take them for those of the new cluster.
func (r *run) noClaims(ctx context.Context, madeBy cluster.RunID) error {
	claims, err := r.Kube.Claims(ctx, r.opts.Target)
	if err != nil || len(claims) == 0 {
		return err
	}
	if madeBy != "" {
		return r.notRestored(madeBy, fmt.Sprintf("%d PVCs", len(claims)))
	}
	return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "%d PVCs of its name exist, such as %s", len(claims), claims[0]).
		WithHint("choose another --to, or delete the PVCs if the cluster that they were of is gone")
}

// notRestored refuses a target that an earlier run made, and could not delete when it failed, by the command that does.
func (r *run) notRestored(madeBy cluster.RunID, parts string) error {
	return failure.New(failure.Conflict, "check target", r.opts.Target.String(), "run %s has made the cluster and %s of it, and has not restored it", madeBy, parts).
		WithHint("if that run has ended, delete them with: tisnap restore abort %s --storage %s --yes; or choose another --to", madeBy, r.Store.URL())
}
