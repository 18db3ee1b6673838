package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runs"
)

// refuseExisting refuses a cluster in use. A restore that is repeated after its process was killed when all was done
// but not yet reported ends here, and so does one that failed with its cluster serving: the error names the run.
func (t *target) refuseExisting(ctx context.Context) error {
	if done, text := t.restoredBy(ctx); done != nil {
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "the cluster exists: %s", text).
			WithHint("see what the run did: tisnap runs describe %s; for one more copy choose another --to", done.ID)
	}
	if failed, err := runs.Resolved(ctx, t.store, t.opts.Target); err == nil && failed != nil &&
		!t.elsewhereIs(failed) {
		// only for a better message
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(),
			"the cluster exists: run %s has restored the data of backup %s to it, and failed at %s, before its end",
			failed.ID, failed.Backup,
			failed.Last.UTC().Format(time.RFC3339)).
			WithHint("finish it with: tisnap resolve %s --backup %s; for one more copy choose another --to",
				t.opts.Target, failed.Backup)
	}
	return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "the cluster exists").
		WithHint("choose another --to, or make it with spec.recoveryMode: true")
}

// restoredBy returns the run that restored the target, and its description; nil if unknown.
func (t *target) restoredBy(ctx context.Context) (done *runs.Run, text string) {
	done, err := runs.Restored(ctx, t.store, t.opts.Target)
	if err != nil || done == nil || t.elsewhereIs(done) {
		return nil, "" // only for a better message
	}
	return done, fmt.Sprintf("run %s has restored backup %s to it, and ended at %s", done.ID, done.Backup,
		done.Last.UTC().Format(time.RFC3339))
}

// elsewhereIs reports whether the cluster that a run restored is known to be in another Kubernetes cluster.
func (t *target) elsewhereIs(other *runs.Run) bool {
	_, err := other.About.SameCluster(other.ID, &journal.About{KubernetesUID: t.uid})
	return err != nil
}

// check accepts a free name, or a cluster created for this restore: in recovery mode, of the backup's shape, and
// without stores.
func (t *target) check(ctx context.Context, m *manifest.Manifest) error {
	t.existing, t.instance, t.given = false, "", journal.GivenTarget{} // of an earlier try
	tc, err := t.cluster(ctx)
	if failure.Is(err, failure.NotFound) {
		return t.noClaims(ctx, "")
	}
	if err != nil {
		return err
	}
	stores := len(m.Source.Stores)
	switch {
	case t.opts.Changes.Any() || t.opts.Operator != "":
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(),
			"the cluster exists, and --from-manifest, --patch and --operator are for one that the restore makes").
			WithHint("leave them out, or choose another --to")
	case !tc.RecoveryMode:
		return t.refuseExisting(ctx)
	case tc.Own:
		return t.notRestored(tc.Run, fmt.Sprintf("%d TiKV stores", tc.TiKVReplicas))
	case tc.TiKVReplicas != stores:
		return failure.New(failure.Unready, "check target", t.opts.Target.String(),
			"it has %d TiKV replicas and the backup has %d stores", tc.TiKVReplicas, stores).
			WithHint("set spec.tikv.replicas to %d: scale after the restore", stores)
	case len(tc.Stores) > 0 && tc.Run != "":
		return t.notRestored(tc.Run, fmt.Sprintf("%d TiKV stores", len(tc.Stores)))
	case len(tc.Stores) > 0:
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "it has %d TiKV stores already",
			len(tc.Stores)).
			WithHint("choose another --to, or delete the cluster and make it again: a restore needs one that never ran")
	}
	if err := t.checkShape(tc, m); err != nil {
		return err
	}
	t.existing, t.instance, t.given = true, tc.Instance, journal.GivenTarget{UID: uidOf(tc)}
	return t.noClaims(ctx, tc.Run)
}

// checkAllowed checks whether the API server would take the target's objects.
func (t *target) checkAllowed(ctx context.Context, objects json.RawMessage, plan volumes.Plan, stores int) error {
	if err := t.kube.Allowed(ctx, t.opts.Target.Namespace, objects); err != nil {
		return err
	}
	return t.kube.DryRun(ctx, objects, t.asTarget(plan, stores), t.planned(plan.Volumes), t.existing)
}

// nodeRules returns what the pod of each volume will ask of its node.
func (t *target) nodeRules(
	ctx context.Context, objects json.RawMessage, plan volumes.Plan, stores int,
) ([]podnodes.Rules, error) {
	return t.kube.NodeRules(ctx, objects, t.asTarget(plan, stores), t.planned(plan.Volumes), t.existing)
}

// noClaims refuses PVCs of the target's name: the Operator would use them for the new cluster.
func (t *target) noClaims(ctx context.Context, madeBy cluster.RunID) error {
	claims, err := t.kube.Claims(ctx, t.opts.Target)
	if err != nil || len(claims) == 0 {
		return err
	}
	if madeBy != "" {
		return t.notRestored(madeBy, fmt.Sprintf("%d PVCs", len(claims)))
	}
	return failure.New(failure.Conflict, "check target", t.opts.Target.String(),
		"%d PVCs of its name exist, such as %s", len(claims), claims[0]).
		WithHint("choose another --to, or delete the PVCs if the cluster that they were of is gone")
}

// notRestored refuses a target that an earlier run created and could not delete when it failed, naming the command that
// does.
func (t *target) notRestored(madeBy cluster.RunID, parts string) error {
	return failure.New(failure.Conflict, "check target", t.opts.Target.String(),
		"run %s has made the cluster and %s of it, and has not restored it", madeBy, parts).
		WithHint("if that run has ended, delete them with: tisnap restore abort %s --storage %s --yes; or choose "+
			"another --to", madeBy, t.store.URL())
}
