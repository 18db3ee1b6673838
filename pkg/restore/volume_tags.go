package restore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// tags are those that a volume gets in the call that makes it. The driver's and the Operator's are what they look a
// volume up by, and what the driver's usual IAM policy allows it to delete or resize.
func (r *run) tags(v *Volume) ebs.Tags {
	own := ebs.Tags{
		ebs.TagRun: string(r.opts.Run), ebs.TagBackup: string(r.opts.Backup), ebs.TagCluster: r.opts.Target.String(),
		ebs.TagStore: v.Store.String(), ebs.TagRole: string(v.Role), ebs.TagSnapshot: string(v.Snapshot),
		ebs.TagEpoch: ebs.EpochTag(cmp.Or(r.earlier.VolumesEpoch, r.runner.Fence().Epoch())), "ebs.csi.aws.com/cluster": "true",
	}
	if r.runner.StorageID() != "" {
		own[ebs.TagStorage] = r.runner.StorageID()
	}
	if r.externalBinder {
		addBRTags(own, v)
		return own
	}
	maps.Copy(own, ebs.Tags{
		"CSIVolumeName":                           v.names.PV,
		"kubernetes.io/created-for/pv/name":       v.names.PV,
		"kubernetes.io/created-for/pvc/name":      v.names.Claim,
		"kubernetes.io/created-for/pvc/namespace": r.opts.Target.Namespace,
	})
	tags, _ := ebs.KeepTags(own, r.opts.KeepTags, v.source.Tags)
	return tags
}

// retag makes the volumes this process's where an earlier one asked for them, or for some.
func (r *run) retag(ctx context.Context, s *phase.Scope) {
	if r.earlier.VolumesEpoch == 0 || r.earlier.VolumesEpoch == r.runner.Fence().Epoch() {
		return
	}
	var volumes []cluster.VolumeID
	for i := range r.volumes {
		volumes = append(volumes, r.volumes[i].ID)
	}
	if err := ebs.Retag(ctx, r.EBS, volumes, r.runner.Fence().Epoch()); err != nil {
		s.Note("the volumes that an earlier process asked for keep its epoch (%s): %v", failure.HintOf(err), err)
	}
}

// What EC2 takes, less the four tags that TiDB Operator adds when it binds a volume.
const (
	maxTags   = 50 - 4
	maxTagKey = 128
)

// addBRTags adds the tags that br gives a restored volume: two fixed ones, the snapshot's id, and each tag of the
// snapshot behind a prefix, unless it has the prefix already. Of a snapshot with very many tags the last by name are
// left out: without the volume there is nothing to tag.
func addBRTags(own ebs.Tags, v *Volume) {
	const prefix = "snapshot/"
	own["TiDBCluster-BR"] = "new"
	own[prefix+"createdFromSnapshotId"] = string(v.Snapshot)
	for _, key := range slices.Sorted(maps.Keys(v.source.Tags)) {
		if strings.HasPrefix(key, prefix) || len(prefix+key) > maxTagKey || len(own) >= maxTags {
			continue
		}
		own[prefix+key] = v.source.Tags[key]
	}
}
