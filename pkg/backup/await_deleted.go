package backup

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// awaitDeleted waits, before anything is held, until EC2 should have room on every volume beside the snapshots that
// earlier runs deleted while they were in progress: EC2 counts them until they would have been completed, and shows
// them to nobody. The runs' journals say when they were made, and the cluster's last good backup how long that takes;
// without one it is taken to be --pending-timeout, which is the longest wait. What is still in the way then the cut
// meets.
func (m *room) awaitDeleted(ctx context.Context, s *phase.Scope, of *preflight.Source) error {
	count, err := m.ebs.SnapshotsInProgress(ctx, of.Topology.VolumeIDs())
	if err != nil {
		return failure.Annotate(err, "count pending snapshots", "of the volumes")
	}
	shown := 0
	for _, n := range count {
		shown = max(shown, n)
	}
	now := time.Now()
	cuts, err := m.deletedSets(ctx, now)
	if err != nil { // a journal that cannot be read is no reason not to back up
		m.log.Warn("which snapshots other runs deleted is not known", zap.Error(err))
	}
	if len(cuts) == 0 || shown+len(cuts) < preflight.PendingPerVolume {
		return nil
	}
	takes := m.usualTime(ctx)
	cuts = slices.DeleteFunc(cuts, func(at time.Time) bool { return now.Sub(at) > takes })
	over := min(shown+len(cuts)-(preflight.PendingPerVolume-1), len(cuts))
	if over <= 0 {
		return nil
	}
	until := cuts[over-1].Add(takes)
	s.Note("waiting until %s, not held by this run: %d sets of the volumes' snapshots were deleted in the last %s "+
		"while they were in progress, and EC2 counts those with %d that it shows (at most %d of a volume)",
		until.UTC().Format(time.RFC3339), len(cuts), takes.Round(time.Second), shown, preflight.PendingPerVolume)
	return wait.For(ctx, min(takes, time.Until(until)))
}

// deletedSets is when the cluster's other runs made the sets of snapshots that are gone, within the last
// --pending-timeout, in order: those of all attempts but the last, and that one's if EC2 shows none of the run's
// snapshots, and they were not sealed, so completed.
func (m *room) deletedSets(ctx context.Context, now time.Time) (cuts []time.Time, err error) {
	since := now.Add(-m.opts.PendingTimeout)
	journals, err := recentJournals(ctx, m.store, m.opts.Cluster, m.opts.Run, since)
	if err != nil {
		return nil, err
	}
	for id, f := range journals {
		made := f.Cuts
		if len(made) == 0 || made[len(made)-1].Ended.Before(since) {
			continue
		}
		shown, err := m.ebs.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(id)})
		if err != nil {
			return nil, err
		}
		if len(shown) > 0 || f.Sealed {
			made = made[:len(made)-1]
		}
		for i := range made {
			if at := made[i].Ended; at.After(since) && at.Sub(now) < maxClockDifference {
				cuts = append(cuts, at)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	return cuts, nil
}

// usualTime is how long a set of the cluster's snapshots is in progress: as long as in its last good backup, at most
// --pending-timeout, and that if there is none or it cannot be read.
func (m *room) usualTime(ctx context.Context) time.Duration {
	entries, err := m.catalog.List(ctx)
	if err != nil {
		m.log.Warn("how long the cluster's snapshots take is not known", zap.Error(err))
		return m.opts.PendingTimeout
	}
	entries = slices.DeleteFunc(entries,
		func(e catalog.Entry) bool { return e.State != catalog.StateSealed || e.Cluster != m.opts.Cluster })
	if len(entries) == 0 {
		return m.opts.PendingTimeout
	}
	last := slices.MaxFunc(entries, func(a, b catalog.Entry) int { return a.SealedAt.Compare(b.SealedAt) })
	newest, err := m.catalog.Load(ctx, last.ID)
	if err != nil || !newest.SealedAt.After(newest.CutEndedAt) {
		return m.opts.PendingTimeout
	}
	return min(m.opts.PendingTimeout, newest.SealedAt.Sub(newest.CutEndedAt))
}
