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

// awaitDeleted waits, before anything is held, until EC2 should accept another snapshot of every volume despite those
// that earlier runs deleted while in progress: EC2 no longer lists them but counts them until they would have
// completed. Their start comes from the runs' journals, their duration from the cluster's last good backup, or
// --pending-timeout, the longest wait, if there is none. Anything still in the way makes the cut fail.
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
	if err != nil { // an unreadable journal does not stop a backup
		m.log.Warn("could not determine which snapshots other runs deleted", zap.Error(err))
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

// deletedSets returns, in order, when the cluster's other runs cut the sets that they deleted, within the last
// --pending-timeout. A run deleted the sets of all its attempts but the last; that one too if EC2 shows no snapshot of
// the run and it was not sealed, which would mean completed.
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

// usualTime estimates how long a set of the cluster's snapshots is in progress, from its last good backup: at most
// --pending-timeout, which is also the answer if there is none or it cannot be read.
func (m *room) usualTime(ctx context.Context) time.Duration {
	entries, err := m.catalog.List(ctx)
	if err != nil {
		m.log.Warn("could not determine how long the cluster's snapshots take", zap.Error(err))
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
