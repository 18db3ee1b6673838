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
	"github.com/tisnap/tisnap/pkg/runs"
)

// preflight checks everything that could fail later and changes nothing: the account, the volumes' parameters
// and zones, the target, the snapshots, quotas and permissions.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if err := r.checkAccount(ctx); err != nil {
		return err
	}
	if err := r.checkTolerated(); err != nil {
		return err
	}
	if err := r.checkTiFlash(s); err != nil {
		return err
	}
	if err := r.planAll(ctx); err != nil {
		return err
	}
	if r.runner.Resumed() { // what is made already is not to be asked for again
		if err := r.checkSnapshots(ctx); err != nil {
			return err
		}
		if err := r.checkFast(ctx, ebs.AccountQuotas{}); err != nil {
			return err
		}
		r.announce(s)
		return r.findTarget(ctx)
	}
	if err := r.checkTarget(ctx); err != nil {
		return err
	}
	if err := r.checkSnapshots(ctx); err != nil {
		return err
	}
	if err := r.checkQuotas(ctx, s); err != nil {
		return err
	}
	if err := r.Kube.Allowed(ctx, r.opts.Target.Namespace); err != nil {
		return err
	}
	if err := r.Kube.DryRun(ctx, r.manifest.Kubernetes.TidbCluster, r.target(), r.restored(), r.existing); err != nil {
		return err
	}
	if len(r.dropped) > 0 && !r.existing {
		s.Warn("settings of the source's services are not in the copy (--keep-service-settings keeps them): %s", strings.Join(r.dropped, "; "))
	}
	return r.probeEBS(ctx, s)
}

// probeEBS asks EC2 whether a volume may be made, without making one, and notes what will be made.
func (r *run) probeEBS(ctx context.Context, s *phase.Scope) error {
	v := r.volumes[0]
	if err := r.EBS.Probe(ctx, ebs.ActionCreateVolume, string(v.Snapshot), v.Zone); err != nil {
		return failure.Annotate(err, "check permissions", string(v.Snapshot))
	}
	s.Note("%d volumes of %s, %d IOPS, %d MiB/s, in account %s", len(r.volumes), v.Spec.Type, v.Spec.IOPS, v.Spec.ThroughputMiB, r.result.Account)
	if r.fill.rate > 0 {
		s.Note("EC2 fills them at %d MiB/s each, in %d wave(s): about %s", r.fill.rate, r.fill.waves(len(r.volumes)),
			time.Duration(r.fill.seconds(len(r.volumes), r.result.LargestBytes)*float64(time.Second)).Round(time.Second))
	}
	r.announce(s)
	return nil
}

// checkAccount makes sure of where the volumes will be, before anything is asked for there.
func (r *run) checkAccount(ctx context.Context) error {
	account, err := r.EBS.AccountID(ctx)
	if err != nil {
		return failure.Annotate(err, "check account", r.EBS.Region())
	}
	r.result.Account = account
	if r.opts.Account != "" && r.opts.Account != account {
		return failure.New(failure.Usage, "check account", account, "the restore is to be made in account %s", r.opts.Account).
			WithHint("use the credentials of account %s (--profile), or another --account", r.opts.Account)
	}
	if r.manifest.Region != r.EBS.Region() {
		return failure.New(failure.Unready, "check region", r.EBS.Region(), "the snapshots are in %s", r.manifest.Region).
			WithHint("restore with --region %s", r.manifest.Region)
	}
	return checkKey(r.opts.KMSKey, r.EBS.Region())
}

// checkKey refuses a key that EC2 cannot use here. A volume with such a key vanishes after it was accepted.
func checkKey(key, region string) error {
	parts := strings.Split(key, ":")
	if key == "" || parts[0] != "arn" {
		return nil
	}
	if len(parts) < 6 || parts[2] != "kms" {
		return failure.New(failure.Usage, "check KMS key", key, "it is not the ARN of a key").
			WithHint("name a key id, an alias (alias/NAME) or an ARN (arn:aws:kms:REGION:ACCOUNT:key/ID)")
	}
	if parts[3] != region {
		return failure.New(failure.Usage, "check KMS key", key, "it is in %s, and the volumes will be in %s", parts[3], region).
			WithHint("name a key of %s", region)
	}
	return nil
}

// planAll says which volumes are made, where, under which names, and what becomes of them later.
func (r *run) planAll(ctx context.Context) error {
	if err := r.planEBS(ctx); err != nil {
		return err
	}
	checked, err := kube.CheckRestored(r.manifest.Kubernetes.TidbCluster, r.target(), r.restored())
	if err != nil {
		return err
	}
	r.dropped = checked.Dropped
	for i, names := range checked.Names {
		r.volumes[i].names = names
	}
	return nil
}

// planEBS says which volumes are made, where, and what becomes of them later.
func (r *run) planEBS(ctx context.Context) error {
	ids, err := r.EBS.ZoneIDs(ctx)
	if err != nil {
		return failure.Annotate(err, "list zones", r.EBS.Region())
	}
	source := zoneSet{}
	for _, snap := range r.manifest.Snapshots {
		source[snap.Zone] = r.manifest.ZoneIDs[snap.Zone]
	}
	zones, err := mapZones(source, r.opts.Zone, r.opts.Zones, ids)
	if err != nil {
		return err
	}
	if r.volumes, err = planVolumes(r.manifest, r.opts.Volume, r.opts.KMSKey, zones); err != nil {
		return err
	}
	r.volumes = r.opts.Scope.of(r.volumes)
	if len(r.volumes) == 0 {
		return failure.New(failure.Usage, "plan volumes", string(r.opts.Backup), "the backup has no volume of the scope that is asked for").
			WithHint("leave --volume-scope out")
	}
	if err := checkRate(r.opts.InitializationMiB); err != nil {
		return err
	}
	r.fill = planFill(r.opts.InitializationMiB, len(r.volumes))
	return planAfter(r.volumes, r.opts.After)
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

// checkSnapshots makes sure that every snapshot is there, completed, and what the manifest says.
func (r *run) checkSnapshots(ctx context.Context) error {
	found, err := r.EBS.DescribeSnapshots(ctx, r.manifest.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", string(r.opts.Backup))
	}
	state := map[cluster.SnapshotID]ebs.Snapshot{}
	r.result.DataBytes, r.result.LargestBytes = 0, 0 // of a try before
	for _, snap := range found {
		state[snap.ID] = snap
		r.result.DataBytes += snap.FullBytes
		r.result.LargestBytes = max(r.result.LargestBytes, snap.FullBytes)
	}
	var bad []string
	for _, want := range r.manifest.Snapshots {
		snap, ok := state[want.ID]
		switch {
		case !ok:
			bad = append(bad, fmt.Sprintf("%s is gone", want.ID))
		case snap.State != ebs.SnapshotCompleted:
			bad = append(bad, fmt.Sprintf("%s is %s", want.ID, snap.State))
		default:
			bad = append(bad, contradictions(r.manifest, want, snap)...)
		}
	}
	for i := range r.volumes {
		v := &r.volumes[i]
		v.source = state[v.Snapshot]
		v.encrypt = r.opts.Encrypt && !v.source.Encrypted
		v.Encrypted = v.Encrypted || v.encrypt
	}
	if len(bad) > 0 {
		return failure.New(failure.Corrupt, "check snapshots", string(r.opts.Backup), "%s", strings.Join(bad, ", ")).
			WithHint("restore another backup")
	}
	if err := onOutpost(r.manifest, state); err != nil {
		return err
	}
	return archived(r.manifest, state)
}
