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

// spacing is EC2's minimum interval between two snapshots of a volume.
const spacing = 15 * time.Second

// awaitSpacing waits, before anything is held, until EC2 accepts another snapshot of every volume; otherwise the cut
// would wait with the cluster held. Between two attempts of a run, the wait for a steady cluster covers it. EC2 does
// not show a set that was deleted while pending, such as a failed run's; that run's journal has its time.
func (m *room) awaitSpacing(ctx context.Context, s *phase.Scope, of *preflight.Source) error {
	limit := min(spacing, m.opts.Steady) // never longer than between two attempts
	newest, err := m.ebs.NewestSnapshots(ctx, of.Topology.VolumeIDs(), time.Now().Add(-limit))
	if err != nil {
		return failure.Annotate(err, "check the newest snapshots of the volumes", m.opts.Cluster.String())
	}
	var last time.Time
	for _, at := range newest {
		if at.After(last) && time.Until(at) < maxClockDifference { // beyond that, the clocks cannot be compared
			last = at
		}
	}
	// If a journal cannot be read, the cut waits out the rest.
	deleted, err := lastCut(ctx, m.store, m.opts.Cluster, m.opts.Run, time.Now().Add(-limit))
	if err != nil {
		m.log.Warn("could not determine when other runs took snapshots", zap.Error(err))
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
