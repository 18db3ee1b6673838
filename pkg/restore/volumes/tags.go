package volumes

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

// tags returns the tags that a volume gets when it is created. The driver and the Operator find volumes by theirs, and
// the driver's usual IAM policy requires them for deleting and resizing.
func (m *Maker) tags(v *Volume) ebs.Tags {
	own := maps.Clone(m.opts.Tags)
	if own == nil {
		own = ebs.Tags{}
	}
	maps.Copy(own, ebs.Tags{
		ebs.TagRun: string(m.owner.Run), ebs.TagBackup: string(m.owner.Backup), ebs.TagCluster: m.owner.Target.String(),
		ebs.TagStore: v.Store.String(), ebs.TagRole: string(v.Role), ebs.TagSnapshot: string(v.Snapshot),
		ebs.TagEpoch:              ebs.EpochTag(cmp.Or(m.earlier.Epoch, m.owner.Runner.Fence().Epoch())),
		"ebs.csi.aws.com/cluster": "true",
	})
	if m.owner.Runner.StorageID() != "" {
		own[ebs.TagStorage] = m.owner.Runner.StorageID()
	}
	if m.opts.BR {
		addBRTags(own, v)
		return own
	}
	maps.Copy(own, ebs.Tags{
		"CSIVolumeName":                           v.Names.PV,
		"kubernetes.io/created-for/pv/name":       v.Names.PV,
		"kubernetes.io/created-for/pvc/name":      v.Names.Claim,
		"kubernetes.io/created-for/pvc/namespace": m.owner.Target.Namespace,
	})
	tags, _ := ebs.KeepTags(own, m.opts.KeepTags, v.source.Tags)
	return tags
}

// retag gives volumes requested by an earlier process this process's epoch.
func (m *Maker) retag(ctx context.Context, s *phase.Scope) {
	if m.earlier.Epoch == 0 || m.earlier.Epoch == m.owner.Runner.Fence().Epoch() {
		return
	}
	var volumes []cluster.VolumeID
	for i := range m.volumes {
		volumes = append(volumes, m.volumes[i].ID)
	}
	if err := ebs.Retag(ctx, m.ec2, volumes, m.owner.Runner.Fence().Epoch()); err != nil {
		s.Note("the volumes that an earlier process asked for keep its epoch (%s): %v", failure.HintOf(err), err)
	}
}

// EC2's limit, less the four tags that TiDB Operator adds when it binds a volume.
const (
	maxTags   = 50 - 4
	maxTagKey = 128
)

// addBRTags adds the tags that br gives a restored volume: two fixed ones, the snapshot's id, and each of the
// snapshot's tags with a prefix, unless it already has that. If a snapshot has too many tags the last by name are
// omitted, as the volume matters more.
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
