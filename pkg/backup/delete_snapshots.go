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

// remover deletes the snapshots of a run.
type remover struct {
	ebs     ebs.Snapshots
	storage interface{ URL() string } // named in the command that deletes what is left
	opts    Options
	epoch   int64 // of this process
}

// remove deletes all of made and every snapshot tagged with the run, but none that a later process of the run
// requested. While a request is ambiguous, it keeps listing until EC2 can no longer hide that request's snapshots.
func (d *remover) remove(ctx context.Context, s *phase.Scope, made *sets) error {
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
	note(made.all())
	for waiting := false; ; {
		asked := time.Now() // not after the deletions, which may take longer than EC2 hides a snapshot
		found, err := d.ebs.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(d.opts.Run)})
		if err != nil {
			return d.notDeleted(doomed, err)
		}
		for _, snap := range found {
			if err := snap.Tags.MadeLater("delete snapshots", d.opts.Run, string(snap.ID), d.epoch); err != nil {
				return err
			}
		}
		note(found)
		s.Expect(int64(len(doomed)+len(gone)), "snapshots")
		next := slices.Sorted(maps.Keys(doomed))
		left := ebs.DeleteEach(ctx, next, d.ebs.DeleteSnapshot, func(id cluster.SnapshotID) {
			delete(doomed, id)
			gone[id] = true
			made.noteDeleted(id)
			s.Reached(int64(len(gone)))
		})
		if len(left) > 0 {
			return d.notDeleted(doomed, errors.Join(slices.Collect(maps.Values(left))...))
		}
		if hidden := made.hiddenUntil(seen, d.opts.Visibility); asked.After(hidden) {
			if !hidden.IsZero() {
				s.Warn("an answer of CreateSnapshots was lost, and for %s EC2 showed nothing that it made: "+
					"if it did, the snapshots carry the tag %s=%s, and tisnap gc deletes them",
					d.opts.Visibility, ebs.TagRun, d.opts.Run)
			}
			return nil
		} else if !waiting {
			waiting = true
			s.Note("waiting until %s to delete snapshots that a timed-out request may still "+
				"create; if this process has to end before: %s",
				hidden.UTC().Format(time.RFC3339), d.how())
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return d.notDeleted(doomed, err)
		}
	}
}

// how describes how to find and delete the run's snapshots.
func (d *remover) how() string {
	return fmt.Sprintf("they carry the tag %s=%s, and tisnap gc --storage %s --yes deletes them an hour later "+
		"(--older-than 0s: at once)",
		ebs.TagRun, d.opts.Run, d.storage.URL())
}

// kept is the message about the snapshots when the lock is lost.
func (d *remover) kept() string {
	return fmt.Sprintf("the snapshots tagged %s=%s are kept: another process may continue the run with them; "+
		"else tisnap gc deletes them", ebs.TagRun, d.opts.Run)
}

func (d *remover) notDeleted(doomed map[cluster.SnapshotID]bool, err error) error {
	names := make([]string, 0, len(doomed))
	for id := range doomed {
		names = append(names, string(id))
	}
	what := fmt.Sprintf("%d may be left (%s)", len(names), strings.Join(names, " "))
	if len(names) == 0 {
		what = "some may be left that EC2 has not shown yet"
	}
	return &failure.Error{
		Op: "delete snapshots", Target: "run " + string(d.opts.Run), Kind: failure.KindOf(err),
		Hint: "run: tisnap gc --storage " + d.storage.URL() + " --yes (an hour later, or with --older-than 0s); " +
			"the snapshots carry the tag " + ebs.TagRun + "=" + string(d.opts.Run),
		Err: fmt.Errorf("%s: %w", what, err),
	}
}
