package backup

import (
	"math"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

const (
	// startMargin is how far EC2's start times may lie apart from the requests beside the difference of the clocks.
	// A set of an earlier attempt is at least 15 s older: EC2 takes no two snapshots of a volume within that time.
	startMargin = 5 * time.Second
	// maxClockDifference is how far this machine's clock may lie apart from EC2's where nothing else dates the cut.
	maxClockDifference = 10 * time.Second
)

// checkStarts fails unless every snapshot started while its set was asked for, by EC2's own clock. That clock may
// differ from this machine's, but by the same time for all stores: sets that were answered show by how much.
func (s *sets) checkStarts(name cluster.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// EC2's clock is ahead by at least lowest and at most highest.
	lowest, highest := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	var oldest ebs.Snapshot
	answered := false
	for id, snaps := range s.byStore {
		_, ambiguous := s.ambiguous[id]
		answered = answered || !ambiguous
		for _, snap := range snaps {
			lowest = max(lowest, snap.StartedAt.Sub(s.ended[id]))
			if ahead := snap.StartedAt.Sub(s.begun[id]); ahead < highest {
				highest, oldest = ahead, snap
			}
		}
	}
	refuse := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Corrupt, "check start times", name.String(), format, args...)
	}
	switch {
	case len(s.byStore) == 0:
		return refuse("no snapshot was made")
	case lowest-highest > startMargin:
		return refuse("snapshot %s started %s before it was asked for: it is not of this cut", oldest.ID,
			(lowest - highest).Round(time.Millisecond)).
			WithHint("run the backup again")
	case !answered && highest < -maxClockDifference:
		return refuse("snapshot %s started %s before it was asked for, by this machine's clock", oldest.ID,
			(-highest).Round(time.Millisecond)).
			WithHint("set this machine's clock, and run the backup again")
	}
	return nil
}

// span is the first and last of the snapshots' start times by EC2's own clock.
func span(snaps []ebs.Snapshot) (first, last time.Time) {
	for _, snap := range snaps {
		if first.IsZero() || snap.StartedAt.Before(first) {
			first = snap.StartedAt
		}
		if snap.StartedAt.After(last) {
			last = snap.StartedAt
		}
	}
	return first, last
}
