package backup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// spacing is how long EC2 takes no second snapshot of a volume after one.
const spacing = 15 * time.Second

// awaitSpacing waits, before anything is held, until EC2 takes another snapshot of every volume: the cut would wait for
// it while the cluster is held. Between two attempts of a run the wait for a steady cluster is that wait. A set that
// was deleted while it was pending, as that of a failed run, is not shown by EC2 and is known by that run's journal.
func (m *room) awaitSpacing(ctx context.Context, s *phase.Scope, of *preflight.Source) error {
	limit := min(spacing, m.opts.Steady) // never longer than between two attempts
	newest, err := m.ebs.NewestSnapshots(ctx, of.Topology.VolumeIDs(), time.Now().Add(-limit))
	if err != nil {
		return failure.Annotate(err, "check the newest snapshots of the volumes", m.opts.Cluster.String())
	}
	var last time.Time
	for _, at := range newest {
		if at.After(last) && time.Until(at) < maxClockDifference { // by more, EC2's clock says nothing about ours
			last = at
		}
	}
	// Of a journal that cannot be read the cut meets what is left.
	deleted, err := lastCut(ctx, m.store, m.opts.Cluster, m.opts.Run, time.Now().Add(-limit))
	if err != nil {
		m.log.Warn("when other runs took snapshots is not known", zap.Error(err))
	}
	if deleted.After(last) && time.Until(deleted) < maxClockDifference {
		last = deleted
	}
	left := min(limit, time.Until(last.Add(limit)))
	if left <= 0 {
		return nil
	}
	s.Note("waiting %s, not held by this run: a volume was snapshotted at %s, and EC2 takes no second snapshot "+
		"within %s",
		left.Round(100*time.Millisecond), last.UTC().Format(time.RFC3339), spacing)
	return wait.For(ctx, left)
}
