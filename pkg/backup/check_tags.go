package backup

import (
	"context"
	"slices"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// checkTags puts back the tags that snapshots of the cut do not carry, and names each snapshot that stays without: gc
// finds a snapshot by its tags alone. The backup is as good without them.
func (r *run) checkTags(ctx context.Context, s *phase.Scope, found []ebs.Snapshot) {
	wanted := map[cluster.VolumeID]ebs.Tags{}
	for _, st := range r.source.Topology.Stores {
		tags := r.request(st).Tags
		for _, v := range st.Volumes {
			wanted[v.ID] = tags
		}
	}
	for _, snap := range found {
		missing := wanted[snap.Volume].Missing(snap.Tags)
		delete(missing, ebs.TagEpoch) // of the process that asked for it
		if len(missing) == 0 {
			continue
		}
		if err := r.EBS.PutTags(ctx, []string{string(snap.ID)}, missing); err != nil {
			s.Warn("snapshot %s has lost %d of its tags, by which tisnap gc finds it, and they cannot be put back (%s): %v",
				snap.ID, len(missing), failure.HintOf(err), err)
			continue
		}
		s.Warn("snapshot %s had lost %d of its tags: they were put back", snap.ID, len(missing))
	}
}

// retag gives the snapshots that an earlier process of the run made this one's epoch: should that process wake up in the middle
// of its undo, they are not its own any more. Without the permission the lock alone keeps it from them.
func (r *run) retag(ctx context.Context, s *phase.Scope) {
	var names []string
	for _, snap := range r.sets.all() {
		names = append(names, string(snap.ID))
	}
	tags := ebs.Tags{ebs.TagEpoch: strconv.FormatInt(r.fence.Epoch(), 10)}
	for some := range slices.Chunk(names, retaggedAtOnce) {
		if err := r.EBS.PutTags(ctx, some, tags); err != nil {
			s.Note("the snapshots that an earlier process made keep its epoch (%s): %v", failure.HintOf(err), err)
			return
		}
	}
}

// retaggedAtOnce is how many snapshots are tagged by one request: EC2 takes 1,000, and recommends fewer.
const retaggedAtOnce = 100
