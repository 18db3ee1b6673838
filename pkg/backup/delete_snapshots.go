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

// deleteSnapshots deletes every snapshot that carries the run's tag and every one that an
// answer named, but none that a later process of the run asked for. While a request is ambiguous it lists them again, until
// EC2 cannot hide its snapshots any more.
func (r *run) deleteSnapshots(ctx context.Context, s *phase.Scope) error {
	if err := r.bury(ctx); err != nil {
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
	note(r.sets.all())
	for waiting := false; ; {
		found, err := r.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(r.opts.Run)})
		if err != nil {
			return r.leftover(doomed, err)
		}
		for _, snap := range found {
			if err := snap.Tags.MadeLater("delete snapshots", r.opts.Run, string(snap.ID), r.fence.Epoch()); err != nil {
				return err
			}
		}
		note(found)
		s.Expect(int64(len(doomed)+len(gone)), "snapshots")
		left := ebs.DeleteEach(ctx, slices.Sorted(maps.Keys(doomed)), r.EBS.DeleteSnapshot, func(id cluster.SnapshotID) {
			delete(doomed, id)
			gone[id] = true
			r.sets.noteDeleted(id)
			s.Reached(int64(len(gone)))
		})
		if len(left) > 0 {
			return r.leftover(doomed, errors.Join(slices.Collect(maps.Values(left))...))
		}
		if hidden := r.sets.hiddenUntil(seen, r.opts.Visibility); time.Now().After(hidden) {
			if !hidden.IsZero() {
				s.Warn("an answer of CreateSnapshots was lost, and for %s EC2 showed nothing that it made: if it did, the snapshots "+
					"carry the tag %s=%s, and tisnap gc deletes them", r.opts.Visibility, ebs.TagRun, r.opts.Run)
			}
			r.Remains.Clear(remainsSnapshots)
			if err := r.dropMarks(ctx, s); err != nil {
				return err
			}
			return r.catalog.ForgetCutForBR(ctx, r.opts.Run)
		} else if !waiting {
			waiting = true
			s.Note("waiting until %s for snapshots that EC2 may still make of a request whose answer is late, to delete them; if this process has to end before: %s",
				hidden.UTC().Format(time.RFC3339), r.removal())
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return r.leftover(doomed, err)
		}
	}
}

// keptSnapshots is what is said of them when the lock is lost.
func (r *run) keptSnapshots() string {
	return fmt.Sprintf("the snapshots tagged %s=%s are kept: another process may continue the run with them; else tisnap gc deletes them", ebs.TagRun, r.opts.Run)
}

func (r *run) leftover(doomed map[cluster.SnapshotID]bool, err error) error {
	names := make([]string, 0, len(doomed))
	for id := range doomed {
		names = append(names, string(id))
	}
	what := fmt.Sprintf("%d may be left (%s)", len(names), strings.Join(names, " "))
	if len(names) == 0 {
		what = "some may be left that EC2 has not shown yet"
	}
	return &failure.Error{
		Op: "delete snapshots", Target: "run " + string(r.opts.Run), Kind: failure.KindOf(err),
		Hint: "run: tisnap gc --storage " + r.Store.URL() + " --yes (an hour later, or with --older-than 0s); the snapshots carry the tag " + ebs.TagRun + "=" + string(r.opts.Run),
		Err:  fmt.Errorf("%s: %w", what, err),
	}
}
