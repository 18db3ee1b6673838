package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
)

// preflight checks everything that could fail later and changes nothing: the account, the volumes' parameters
// and zones, the target, the snapshots, quotas and permissions.
func (t *task) preflight(ctx context.Context, s *phase.Scope) error {
	if err := t.checkAccount(ctx); err != nil {
		return err
	}
	if err := t.planAll(ctx); err != nil {
		return err
	}
	if err := t.checkTarget(ctx); err != nil {
		return err
	}
	if err := t.checkSnapshots(ctx); err != nil {
		return err
	}
	if err := t.checkQuotas(ctx, s); err != nil {
		return err
	}
	if err := t.Kube.Allowed(ctx, t.opts.Target.Namespace); err != nil {
		return err
	}
	v := t.volumes[0]
	if err := t.EBS.Probe(ctx, ebs.ActionCreateVolume, string(v.Snapshot), v.Zone); err != nil {
		return failure.Annotate(err, "check permissions", string(v.Snapshot))
	}
	s.Note("%d volumes of %s, %d IOPS, %d MiB/s, in account %s", len(t.volumes), v.Spec.Type, v.Spec.IOPS, v.Spec.ThroughputMiB, t.result.Account)
	if t.fill.rate > 0 {
		s.Note("EC2 fills them at %d MiB/s each, in %d wave(s): about %s", t.fill.rate, t.fill.waves(len(t.volumes)),
			time.Duration(t.fill.seconds(len(t.volumes), t.result.LargestBytes)*float64(time.Second)).Round(time.Second))
	}
	return nil
}

// checkAccount makes sure of where the volumes will be, before anything is asked for there.
func (t *task) checkAccount(ctx context.Context) error {
	account, err := t.EBS.AccountID(ctx)
	if err != nil {
		return failure.Annotate(err, "check account", t.EBS.Region())
	}
	t.result.Account = account
	if t.opts.Account != "" && t.opts.Account != account {
		return failure.New(failure.Usage, "check account", account, "the restore is to be made in account %s", t.opts.Account).
			WithHint("use the credentials of account %s (--profile), or another --account", t.opts.Account)
	}
	if t.manifest.Region != t.EBS.Region() {
		return failure.New(failure.Unready, "check region", t.EBS.Region(), "the snapshots are in %s", t.manifest.Region).
			WithHint("restore with --region %s", t.manifest.Region)
	}
	return checkKey(t.opts.KMSKey, t.EBS.Region())
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
func (t *task) planAll(ctx context.Context) error {
	ids, err := t.EBS.ZoneIDs(ctx)
	if err != nil {
		return failure.Annotate(err, "list zones", t.EBS.Region())
	}
	source := zoneSet{}
	for _, snap := range t.manifest.Snapshots {
		source[snap.Zone] = t.manifest.ZoneIDs[snap.Zone]
	}
	zones, err := mapZones(source, t.opts.Zone, t.opts.Zones, ids)
	if err != nil {
		return err
	}
	if t.volumes, err = planVolumes(t.manifest, t.opts.Volume, t.opts.KMSKey, zones); err != nil {
		return err
	}
	if err := checkRate(t.opts.InitializationMiB); err != nil {
		return err
	}
	t.fill = planFill(t.opts.InitializationMiB, len(t.volumes))
	if err := planAfter(t.volumes, t.opts.After); err != nil {
		return err
	}
	restored := make([]kube.RestoredVolume, len(t.volumes))
	for i := range t.volumes {
		restored[i] = t.volumes[i].asRestored(t.opts.Target, t.opts.Run)
	}
	names, err := kube.CheckRestored(t.manifest.Kubernetes.TidbCluster, t.opts.Target, t.opts.Run, restored)
	if err != nil {
		return err
	}
	for i := range names {
		t.volumes[i].names = names[i]
	}
	return nil
}

// checkTarget accepts a name that is free, or a cluster made for this restore: in recovery mode, of the
// backup's shape, and without a store of its own.
func (t *task) checkTarget(ctx context.Context) error {
	tc, err := t.Kube.Cluster(ctx, t.opts.Target)
	if failure.Is(err, failure.NotFound) {
		return t.noClaims(ctx)
	}
	if err != nil {
		return err
	}
	stores := len(t.manifest.Source.Stores)
	switch {
	case !tc.RecoveryMode:
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "the cluster exists").
			WithHint("choose another --to, or make it with spec.recoveryMode: true")
	case tc.TiKVReplicas != stores:
		return failure.New(failure.Unready, "check target", t.opts.Target.String(), "it has %d TiKV replicas and the backup has %d stores", tc.TiKVReplicas, stores).
			WithHint("set spec.tikv.replicas to %d: scale after the restore", stores)
	case len(tc.Stores) > 0:
		return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "it has %d TiKV stores already", len(tc.Stores)).
			WithHint("choose another --to, or delete the cluster and make it anew: a restore needs one that never ran")
	}
	if err := t.checkShape(tc); err != nil {
		return err
	}
	t.existing = true
	return t.noClaims(ctx)
}

// noClaims refuses PVCs of the target's name: the Operator would take them for those of the new cluster.
func (t *task) noClaims(ctx context.Context) error {
	claims, err := t.Kube.Claims(ctx, t.opts.Target)
	if err != nil || len(claims) == 0 {
		return err
	}
	return failure.New(failure.Conflict, "check target", t.opts.Target.String(), "%d PVCs of its name exist, such as %s", len(claims), claims[0]).
		WithHint("choose another --to, or delete the PVCs if the cluster that they were of is gone")
}

// checkSnapshots makes sure that every snapshot is there and completed.
func (t *task) checkSnapshots(ctx context.Context) error {
	found, err := t.EBS.DescribeSnapshots(ctx, t.manifest.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", string(t.opts.Backup))
	}
	state := map[cluster.SnapshotID]ebs.Snapshot{}
	for _, snap := range found {
		state[snap.ID] = snap
		t.result.DataBytes += snap.FullBytes
		t.result.LargestBytes = max(t.result.LargestBytes, snap.FullBytes)
	}
	var bad []string
	for _, id := range t.manifest.SnapshotIDs() {
		if snap, ok := state[id]; !ok {
			bad = append(bad, fmt.Sprintf("%s is gone", id))
		} else if snap.State != ebs.SnapshotCompleted {
			bad = append(bad, fmt.Sprintf("%s is %s", id, snap.State))
		}
	}
	for i := range t.volumes {
		v := &t.volumes[i]
		v.kept, _ = ebs.KeepTags(nil, t.opts.KeepTags, state[v.Snapshot].Tags)
	}
	if len(bad) > 0 {
		return failure.New(failure.Corrupt, "check snapshots", string(t.opts.Backup), "%s", strings.Join(bad, ", ")).
			WithHint("restore another backup")
	}
	return nil
}
