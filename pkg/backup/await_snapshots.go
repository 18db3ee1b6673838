package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// completion waits for the snapshots of a cut.
type completion struct {
	ebs  ebs.Snapshots
	opts Options
}

// sizes are the total and the largest size of snapshots; 0 where EC2 does not report it.
type sizes struct{ all, largest int64 }

// await returns when all snapshots are completed. EBS promises no duration, so a set fails only after Options.Stuck
// without progress, or when one of its snapshots does. It calls shown once, as soon as EC2 shows all of them.
func (c *completion) await(
	ctx context.Context, s *phase.Scope, wanted []cluster.SnapshotID, shown func([]ebs.Snapshot),
) (sizes, error) {
	s.Expect(int64(100*len(wanted)), "% of snapshots")
	progress, moved, all := int64(-1), time.Now(), false
	unseen := map[cluster.SnapshotID]time.Time{}
	warned := map[cluster.SnapshotID]bool{} // of unknown states
	for interval := ebs.NextPoll(0); ; interval = ebs.NextPoll(interval) {
		asked := time.Now()
		found, err := c.ebs.DescribeSnapshots(ctx, wanted)
		if err != nil && !failure.Transient(err) {
			return sizes{}, failure.Annotate(err, "describe snapshots", "")
		}
		if err == nil {
			if err := c.checkThere(asked, wanted, found, unseen); err != nil {
				return sizes{}, err
			}
			if !all && len(found) == len(wanted) {
				shown(found)
				all = true
			}
			done, sum, err := classify(s, wanted, found, warned)
			if err != nil {
				return sizes{}, err
			}
			if done {
				s.Reached(sum)
				return sizesOf(found), nil
			}
			if sum != progress {
				progress, moved = sum, time.Now()
				s.Reached(sum)
			}
		}
		if time.Since(moved) > c.opts.Stuck {
			return sizes{}, failure.New(failure.Limited, "wait for snapshots", slowest(found),
				"no progress for %s, so the whole set is discarded", c.opts.Stuck)
		}
		if err := wait.For(ctx, interval); err != nil {
			return sizes{}, failure.New(failure.Limited, "wait for snapshots", slowest(found), "%w", err)
		}
	}
}

// checkThere fails if EC2 has not shown a snapshot for longer than it may hide an existing one: it was deleted for
// good. unseen holds since when each has been missing. An answer is as old as its question: the process may have been
// suspended between them.
func (c *completion) checkThere(
	asked time.Time, wanted []cluster.SnapshotID, found []ebs.Snapshot, unseen map[cluster.SnapshotID]time.Time,
) error {
	for _, id := range wanted {
		if slices.ContainsFunc(found, func(s ebs.Snapshot) bool { return s.ID == id }) {
			delete(unseen, id)
			continue
		}
		since, known := unseen[id]
		if !known {
			unseen[id] = asked
		} else if asked.Sub(since) > c.opts.Visibility {
			return failure.New(failure.Corrupt, "wait for snapshots", string(id),
				"it was deleted, so the whole set is lost").
				WithHint("see who called DeleteSnapshot in CloudTrail, and run the backup again")
		}
	}
	return nil
}

// classify decides by state; see ebs.SnapshotState.Outcome. It warns of an unknown state once per snapshot.
func classify(
	s *phase.Scope, wanted []cluster.SnapshotID, found []ebs.Snapshot, warned map[cluster.SnapshotID]bool,
) (done bool, sum int64, err error) {
	completed := 0
	for _, snap := range found {
		switch snap.State.Outcome() {
		case ebs.SnapshotDone:
			completed++
			sum += 100
		case ebs.SnapshotFailed:
			return false, 0, failure.New(failure.Unknown, "wait for snapshots", string(snap.ID),
				"it failed: its state is %q (%s), so the whole set is lost",
				snap.State, snap.Message).
				WithHint("run the backup again")
		case ebs.SnapshotWaits:
			sum += int64(min(snap.Progress, 99))
		case ebs.SnapshotStrange:
			if !warned[snap.ID] {
				s.Warn("snapshot %s is %q, an unknown state; still waiting", snap.ID, snap.State)
			}
			warned[snap.ID] = true
		}
	}
	return completed >= len(wanted), sum, nil
}

func sizesOf(snaps []ebs.Snapshot) (out sizes) {
	for _, snap := range snaps {
		out.all += snap.FullBytes
		out.largest = max(out.largest, snap.FullBytes)
	}
	return out
}

// slowest names the snapshot with the least progress.
func slowest(found []ebs.Snapshot) string {
	var worst *ebs.Snapshot
	for i := range found {
		if found[i].State != ebs.SnapshotCompleted && (worst == nil || found[i].Progress < worst.Progress) {
			worst = &found[i]
		}
	}
	if worst == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s, %d %%)", worst.ID, worst.State, worst.Progress)
}
