package copyrun

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runs"
)

// before finds the earlier copies of the backup's volumes in the target that came the same way: by their tags those
// that exist, and by the storage's journals those that were deleted, which EC2 does not show. others is how many copies
// of other runs are under way.
func (r *run) before(
	ctx context.Context, s *phase.Scope,
) (out map[cluster.VolumeID]copyplan.Before, others int, err error) {
	found, err := r.Target.AllSnapshots(ctx)
	if err != nil {
		return nil, 0, failure.Annotate(err, "find earlier copies", r.Target.Region())
	}
	earlier, err := r.earlierRuns(ctx)
	if err != nil {
		s.Note("earlier copies that were deleted are unknown, after which a copy is full: %v", err)
	}
	out = map[cluster.VolumeID]copyplan.Before{}
	for _, s := range found {
		if s.Tags[ebs.TagCopiedFrom] != "" && s.State == ebs.SnapshotPending &&
			s.Tags[ebs.TagRun] != string(r.opts.Run) {
			others++
		}
	}
	for _, m := range r.found.manifest.Snapshots {
		if b, there := r.beforeOf(m, found, earlier); there {
			out[m.Volume] = b
		}
	}
	return out, others, nil
}

// beforeOf is before of one volume, if it was copied earlier.
func (r *run) beforeOf(
	m manifest.Snapshot, found []ebs.Snapshot, earlier []madeBefore,
) (b copyplan.Before, there bool) {
	var newest time.Time
	exists, over := map[cluster.SnapshotID]bool{}, r.copyOf().Over()
	last, at := lastOf(earlier, m.Volume, over)
	for _, s := range found {
		if s.Tags[ebs.TagCopiedFrom] == "" || s.Tags[ebs.TagVolumeOf+string(m.Role)] != string(m.Volume) ||
			s.Tags[ebs.TagCopiedOver] != over ||
			s.State != ebs.SnapshotCompleted || s.Tags[ebs.TagRun] == string(r.opts.Run) {
			continue
		}
		b.Exists, b.Keys, exists[s.ID] = true, append(b.Keys, s.KMSKey), true
		if s.StartedAt.After(newest) || newest.IsZero() {
			newest, b.Archived = s.StartedAt, s.Archived
		}
		ours := func(r madeBefore) bool { return r.made[sourceID(s.Tags[ebs.TagCopiedFrom])].Copy == s.ID }
		if s.StartedAt.After(at) && !slices.ContainsFunc(earlier, ours) { // for another storage, and later
			last = ""
		}
	}
	if last != "" && !exists[last] {
		b.Exists = false
	}
	return b, b.Exists || last != ""
}

// madeBefore are the completed copies of a run.
type madeBefore struct {
	last time.Time // that its journal has
	made map[sourceID]journal.CopiedSnapshot
}

// earlierRuns reads what the storage's other runs copied into the region, the newest first. For EC2 copies that failed
// do not count. Those that were completed do, also of a run that did not come to its end; which ones these are only
// that run may have seen, so what EC2 completed after it died, and gc deleted, is unknown.
func (r *run) earlierRuns(ctx context.Context) (out []madeBefore, err error) {
	all, err := runs.Copies(ctx, r.To)
	for _, one := range all {
		if one.About.Region != r.Target.Region() || one.ID == r.opts.Run {
			continue
		}
		facts := journal.ReadFacts(one.History.Records).Copy
		made := facts.Completed
		if one.History.Done(journal.StepCopy) { // older versions did not record which are completed
			made = facts.Made
		}
		out = append(out, madeBefore{one.Last, made})
	}
	return out, err
}

// lastOf is the newest copy of a volume that these runs made, and when at the latest; "" if there is none.
func lastOf(earlier []madeBefore, volume cluster.VolumeID, over string) (cluster.SnapshotID, time.Time) {
	for _, r := range earlier {
		for _, made := range r.made {
			if made.Volume == volume && made.Over == over {
				return made.Copy, r.last
			}
		}
	}
	return "", time.Time{}
}
