package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// awaitPending waits, before anything is held, until EC2 takes another snapshot of every volume: the cut would wait for
// that while the cluster is held.
func (r *run) awaitPending(ctx context.Context, s *phase.Scope) error {
	if err := r.awaitShown(ctx, s); err != nil {
		return err
	}
	return r.awaitDeleted(ctx, s)
}

// awaitShown waits for the volumes of which preflight found as many snapshots in progress as are allowed.
func (r *run) awaitShown(ctx context.Context, s *phase.Scope) error {
	busy := r.source.Busy
	if len(busy) == 0 {
		return nil
	}
	total := int64(len(busy))
	s.Expect(total, "volumes")
	waiting, cancel := context.WithTimeout(ctx, r.opts.PendingTimeout)
	defer cancel()
	var count map[cluster.VolumeID]int
	pace := func(last time.Duration) time.Duration { return min(ebs.NextPoll(last), r.opts.PendingTimeout/10) }
	err := wait.Until(waiting, pace, func() (bool, error) {
		now, n, err := preflight.Busy(waiting, r.EBS, &r.source.Topology)
		switch {
		case err != nil && waiting.Err() != nil:
			return false, nil
		case err != nil:
			return !failure.Transient(err), err
		}
		s.Reached(max(0, total-int64(len(now))))
		if len(now) > 0 {
			busy, count = now, n
		}
		return len(now) == 0, nil
	})
	switch ended := wait.EndOf(err); {
	case ended == nil:
		return err
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "wait for pending snapshots", string(busy[0]))
	case ended.Last != nil:
		return ended.Last
	}
	texts := make([]string, len(busy))
	for i, id := range busy {
		texts[i] = fmt.Sprintf("%s has %d", id, count[id])
	}
	return failure.New(failure.Limited, "wait for pending snapshots", string(busy[0]),
		"after %s these volumes have as many snapshots in progress or in error as EC2 allows: %s", r.opts.PendingTimeout, failure.List(texts)).
		WithHint("delete those in error, wait until the others are completed, or raise --pending-timeout")
}
