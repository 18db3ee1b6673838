package volumes

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// RolePD is the value of TagRole on volumes that Kubernetes creates for a target's PD.
const RolePD = "pd"

// checkTags restores missing tags on volumes, and names each volume for which that fails: gc finds volumes only by
// their tags. The restore is good without them.
func (m *Maker) checkTags(
	ctx context.Context, s *phase.Scope, wanted map[cluster.VolumeID]*Volume, found []ebs.Volume,
) {
	for _, v := range found {
		want := wanted[v.ID]
		if want == nil {
			continue
		}
		missing := m.tags(want).Missing(v.Tags)
		delete(missing, ebs.TagEpoch) // that of the process that requested it, or took it over
		m.putTags(ctx, s, v.ID, missing, "had lost")
	}
}

// TagPD tags the volumes that Kubernetes created for PD in the run's cluster: they outlive a cluster deleted by other
// means, and could not be recognized.
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

// putTags sets missing tags, and warns of what it set and what it could not set.
func (m *Maker) putTags(ctx context.Context, s *phase.Scope, id cluster.VolumeID, tags ebs.Tags, lost string) {
	if len(tags) == 0 {
		return
	}
	err := m.ec2.PutTags(ctx, []string{string(id)}, tags)
	switch {
	case err != nil:
		s.Warn("volume %s lacks %d tags, by which tisnap gc finds it, and they cannot be added (%s): %v", id,
			len(tags), failure.HintOf(err), err)
	case lost != "":
		s.Warn("volume %s %s %d of its tags: they were restored", id, lost, len(tags))
	}
}
