package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// wait returns when all snapshots are completed. It waits by progress: only a set that stands still for
// Options.Stuck fails, as EBS promises no time. One snapshot in error fails the set, as EC2 does.
func (t *task) wait(ctx context.Context, s *phase.Scope) error {
	wanted := ids(t.sets.all())
	s.Expect(int64(100*len(wanted)), "% of snapshots")
	progress, moved := int64(-1), time.Now()
	told := map[cluster.SnapshotID]bool{} // of strange states
	for interval := ebs.NextPoll(0); ; interval = ebs.NextPoll(interval) {
		found, err := t.EBS.DescribeSnapshots(ctx, wanted)
		if err != nil && !retryable(err) {
			return failure.Annotate(err, "describe snapshots", "")
		}
		if err == nil {
			done, sum, err := t.judge(s, wanted, found, told)
			if err != nil || done {
				return err
			}
			if sum != progress {
				progress, moved = sum, time.Now()
				s.Reached(sum)
			}
		}
		if time.Since(moved) > t.opts.Stuck {
			return failure.New(failure.Limited, "wait for snapshots", slowest(found),
				"no progress for %s; the run gives up on the whole set", t.opts.Stuck)
		}
		if err := wait.For(ctx, interval); err != nil {
			return failure.New(failure.Limited, "wait for snapshots", slowest(found), "%w", err)
		}
	}
}

func retryable(err error) bool {
	k := failure.KindOf(err)
	return k == failure.Unknown || k == failure.Limited
}

// judge decides by state; see ebs.SnapshotState.Outcome. A strange state is told once.
func (t *task) judge(s *phase.Scope, wanted []cluster.SnapshotID, found []ebs.Snapshot, told map[cluster.SnapshotID]bool) (done bool, sum int64, err error) {
	var completed, largest, bytes int64
	for _, snap := range found {
		switch snap.State.Outcome() {
		case ebs.SnapshotDone:
			completed++
			sum += 100
		case ebs.SnapshotFailed:
			return false, 0, failure.New(failure.Unknown, "wait for snapshots", string(snap.ID),
				"EC2 says it failed: its state is %q (%s), and with it the whole set is lost", snap.State, snap.Message).WithHint("run the backup again")
		case ebs.SnapshotWaits:
			sum += int64(min(snap.Progress, 99))
		case ebs.SnapshotStrange:
			if !told[snap.ID] {
				s.Warn("snapshot %s is %q: waiting for what EC2 makes of it", snap.ID, snap.State)
			}
			told[snap.ID] = true
		}
		bytes += snap.FullBytes
		largest = max(largest, snap.FullBytes)
	}
	if int(completed) < len(wanted) {
		return false, sum, nil
	}
	t.result.DataBytes, t.result.LargestBytes = bytes, largest
	s.Reached(sum)
	return true, sum, nil
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
