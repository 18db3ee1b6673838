package fromarchive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// remainsSnapshots is the snapshots' key in Remains.
const remainsSnapshots = "snapshots of the archive"

// removal describes how to find and delete the run's snapshots.
func (m *Maker) removal() string {
	return fmt.Sprintf("they carry the tag %s=%s, and tisnap gc --storage %s --yes deletes them an hour later "+
		"(--older-than 0s: at once)", ebs.TagRun, m.owner.Run, m.owner.Storage)
}

// Kept describes the snapshots when the lock is lost.
func (m *Maker) Kept() string {
	return fmt.Sprintf("the snapshots tagged %s=%s are kept: another process may continue the run with them; else "+
		"tisnap gc deletes them", ebs.TagRun, m.owner.Run)
}

// Delete deletes the run's snapshots: known ones and those found by its tag, none of which a later process has taken
// over. With wanted above the number of those that are found it looks again, until EC2 cannot hide one any more: a
// request whose answer was lost may have made it. All are tried, whatever fails.
func (m *Maker) Delete(ctx context.Context, s *phase.Scope, made Made, wanted int) error {
	end := time.Now().Add(m.opts.Visibility)
	gone := map[cluster.SnapshotID]bool{}
	for {
		asked := time.Now()
		doomed, findErr := m.doomed(ctx, made, gone)
		if failure.Is(findErr, failure.Conflict) {
			return findErr
		}
		s.Expect(int64(len(doomed)+len(gone)), "snapshots")
		left := ebs.DeleteEach(ctx, doomed, m.ec2.DeleteSnapshot, func(id cluster.SnapshotID) {
			gone[id] = true
			s.Reached(int64(len(gone)))
		})
		if err := failure.Join(append(slices.Collect(maps.Values(left)), findErr)...); err != nil {
			return m.notDeleted(len(left), err)
		}
		if len(gone) >= wanted || asked.After(end) {
			m.remains.Clear(remainsSnapshots)
			return nil
		}
		if err := wait.For(ctx, m.opts.Poll); err != nil {
			return m.notDeleted(wanted-len(gone), err)
		}
	}
}

// doomed lists the run's snapshots that still exist; none if a later process of the run requested one or took it over:
// that process has the lock.
func (m *Maker) doomed(
	ctx context.Context, made Made, gone map[cluster.SnapshotID]bool,
) ([]cluster.SnapshotID, error) {
	ids := made.IDs()
	found, err := m.ec2.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(m.owner.Run)})
	for _, snap := range found {
		if err := snap.Tags.MadeLater("delete snapshots", m.owner.Run, string(snap.ID),
			m.owner.Runner.Fence().Epoch()); err != nil {
			return nil, err
		}
		ids = append(ids, snap.ID)
	}
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id cluster.SnapshotID) bool { return gone[id] })
	return ids, failure.Annotate(err, "find snapshots", "run "+string(m.owner.Run))
}

func (m *Maker) notDeleted(n int, err error) error {
	return failure.New(failure.KindOf(err), "delete snapshots", "run "+string(m.owner.Run),
		"%d may be left: %w", n, err).
		WithHint("run: tisnap gc --storage %s --yes (an hour later, or with --older-than 0s); the snapshots carry the "+
			"tag %s=%s", m.owner.Storage, ebs.TagRun, m.owner.Run)
}
