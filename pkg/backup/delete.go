package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// deleteSnapshots deletes every snapshot that carries the run's tag and every one that the run was told of.
// While a request is in doubt it looks again, until EC2 cannot hide its snapshots any more.
func (t *task) deleteSnapshots(ctx context.Context, s *phase.Scope) error {
	if err := t.unsealed(ctx); err != nil {
		return err
	}
	doomed, gone := map[cluster.SnapshotID]bool{}, map[cluster.SnapshotID]bool{}
	seen := map[cluster.VolumeID]bool{}
	note := func(snaps []ebs.Snapshot) {
		for _, snap := range snaps {
			seen[snap.Volume] = true
			if !gone[snap.ID] {
				doomed[snap.ID] = true
			}
		}
	}
	note(t.sets.all())
	for {
		found, err := t.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run)})
		if err != nil {
			return t.leftover(doomed, err)
		}
		note(found)
		s.Expect(int64(len(doomed)+len(gone)), "snapshots")
		left := ebs.DeleteEach(ctx, slices.Sorted(maps.Keys(doomed)), t.EBS.DeleteSnapshot, func(id cluster.SnapshotID) {
			delete(doomed, id)
			gone[id] = true
			s.Reached(int64(len(gone)))
		})
		if len(left) > 0 {
			return t.leftover(doomed, errors.Join(slices.Collect(maps.Values(left))...))
		}
		if hidden := t.sets.hiddenUntil(seen, t.opts.Visibility); time.Now().After(hidden) {
			if !hidden.IsZero() {
				s.Warn("an answer of CreateSnapshots was lost, and for %s EC2 showed nothing that it made: if it did, the snapshots "+
					"carry the tag %s=%s, and tisnap gc deletes them", t.opts.Visibility, ebs.TagRun, t.opts.Run)
			}
			return nil
		}
		if err := wait.For(ctx, lookAgain); err != nil {
			return t.leftover(doomed, err)
		}
	}
}

func (t *task) leftover(doomed map[cluster.SnapshotID]bool, err error) error {
	names := make([]string, 0, len(doomed))
	for id := range doomed {
		names = append(names, string(id))
	}
	return &failure.Error{
		Op: "delete snapshots", Target: "run " + string(t.opts.Run), Kind: failure.KindOf(err),
		Hint: "delete the snapshots tagged " + ebs.TagRun + "=" + string(t.opts.Run) + " by hand",
		Err:  fmt.Errorf("%d may be left (%s): %w", len(names), strings.Join(names, " "), err),
	}
}
