package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// checkTags restores missing tags on the cut's snapshots, and names each snapshot for which that fails: gc finds
// snapshots only by their tags. The backup is good without them.
func (c *cutter) checkTags(ctx context.Context, s *phase.Scope, of *preflight.Source, found []ebs.Snapshot) {
	wanted := map[cluster.VolumeID]ebs.Tags{}
	for _, st := range of.Topology.Stores {
		tags := c.request(st, of.VolumeTags).Tags
		for _, v := range st.Volumes {
			wanted[v.ID] = tags
		}
	}
	for _, snap := range found {
		missing := wanted[snap.Volume].Missing(snap.Tags)
		delete(missing, ebs.TagEpoch) // that of the process that requested it
		if len(missing) == 0 {
			continue
		}
		if err := c.ebs.PutTags(ctx, []string{string(snap.ID)}, missing); err != nil {
			s.Warn("snapshot %s has lost %d of its tags, by which tisnap gc finds it, and they cannot be restored "+
				"(%s): %v",
				snap.ID, len(missing), failure.HintOf(err), err)
			continue
		}
		s.Warn("snapshot %s had lost %d of its tags: they were restored", snap.ID, len(missing))
	}
}

// retag gives snapshots of an earlier process of the run this process's epoch.
func retag(ctx context.Context, s *phase.Scope, tagger ebs.Tagger, snaps []ebs.Snapshot, epoch int64) {
	if err := ebs.Retag(ctx, tagger, ids(snaps), epoch); err != nil {
		s.Note("the snapshots that an earlier process made keep its epoch (%s): %v", failure.HintOf(err), err)
	}
}
