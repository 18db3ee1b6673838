package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// rolePD is the value of TagRole on the volumes that Kubernetes makes for PD of a target.
const rolePD = "pd"

// checkTags puts back the tags that volumes do not carry, and names each volume that stays without: gc finds a volume by
// its tags alone. The restore is as good without them.
func (r *run) checkTags(ctx context.Context, s *phase.Scope, wanted map[cluster.VolumeID]*Volume, found []ebs.Volume) {
	for _, v := range found {
		want := wanted[v.ID]
		if want == nil {
			continue
		}
		missing := r.tags(want).Missing(v.Tags)
		delete(missing, ebs.TagEpoch) // of the process that asked for it, or took it over
		r.putTags(ctx, s, v.ID, missing, "had lost")
	}
}

// tagPDVolumes tags what Kubernetes made for PD of a cluster that the run made: its volumes outlive a cluster that is
// deleted in another way, and nobody would know what they were of.
func (r *run) tagPDVolumes(ctx context.Context, s *phase.Scope) {
	if r.existing {
		return
	}
	ids, err := r.Kube.MadeForTarget(ctx, r.opts.Target, r.opts.Run)
	if err != nil {
		s.Warn("the EBS volumes of PD are not tagged, so that tisnap gc will not find them: %v", err)
		return
	}
	for _, id := range ids {
		tags := ebs.Tags{
			ebs.TagRun: string(r.opts.Run), ebs.TagBackup: string(r.opts.Backup), ebs.TagCluster: r.opts.Target.String(), ebs.TagRole: rolePD,
		}
		if r.runner.StorageID() != "" {
			tags[ebs.TagStorage] = r.runner.StorageID()
		}
		r.putTags(ctx, s, id, tags, "")
	}
}

// putTags warns of what it did if the tags were lost, and of what it could not do.
func (r *run) putTags(ctx context.Context, s *phase.Scope, id cluster.VolumeID, tags ebs.Tags, lost string) {
	if len(tags) == 0 {
		return
	}
	err := r.EBS.PutTags(ctx, []string{string(id)}, tags)
	switch {
	case err != nil:
		s.Warn("volume %s lacks %d tags, by which tisnap gc finds it, and they cannot be put there (%s): %v", id, len(tags), failure.HintOf(err), err)
	case lost != "":
		s.Warn("volume %s %s %d of its tags: they were put back", id, lost, len(tags))
	}
}
