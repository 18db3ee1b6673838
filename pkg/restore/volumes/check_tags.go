package volumes

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// RolePD is the value of TagRole on the volumes that Kubernetes makes for PD of a target.
const RolePD = "pd"

// checkTags puts back the tags that volumes do not carry, and names each volume that stays without: gc finds a volume
// by its tags alone. The restore is as good without them.
func (m *Maker) checkTags(
	ctx context.Context, s *phase.Scope, wanted map[cluster.VolumeID]*Volume, found []ebs.Volume,
) {
	for _, v := range found {
		want := wanted[v.ID]
		if want == nil {
			continue
		}
		missing := m.tags(want).Missing(v.Tags)
		delete(missing, ebs.TagEpoch) // of the process that asked for it, or took it over
		m.putTags(ctx, s, v.ID, missing, "had lost")
	}
}

// TagPD tags the volumes that Kubernetes made for PD of a cluster that the run made: they outlive a cluster that is
// deleted in another way, and nobody would know what they were of.
func (m *Maker) TagPD(ctx context.Context, s *phase.Scope, ids []cluster.VolumeID) {
	for _, id := range ids {
		tags := ebs.Tags{
			ebs.TagRun: string(m.owner.Run), ebs.TagBackup: string(m.owner.Backup),
			ebs.TagCluster: m.owner.Target.String(),
			ebs.TagRole:    RolePD,
		}
		if m.owner.Runner.StorageID() != "" {
			tags[ebs.TagStorage] = m.owner.Runner.StorageID()
		}
		m.putTags(ctx, s, id, tags, "")
	}
}

// putTags warns of what it did if the tags were lost, and of what it could not do.
func (m *Maker) putTags(ctx context.Context, s *phase.Scope, id cluster.VolumeID, tags ebs.Tags, lost string) {
	if len(tags) == 0 {
		return
	}
	err := m.ec2.PutTags(ctx, []string{string(id)}, tags)
	switch {
	case err != nil:
		s.Warn("volume %s lacks %d tags, by which tisnap gc finds it, and they cannot be put there (%s): %v", id,
			len(tags), failure.HintOf(err), err)
	case lost != "":
		s.Warn("volume %s %s %d of its tags: they were put back", id, lost, len(tags))
	}
}
