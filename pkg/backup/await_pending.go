package backup

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// room waits, while nothing is held, until EC2 accepts another snapshot of every volume.
type room struct {
	ebs interface {
		ebs.Snapshots
		preflight.EBS
	}
	store   objstore.Store
	catalog catalog.Catalog
	opts    Options
	log     *zap.Logger
}

// awaitShown waits for the volumes that preflight found at their limit of snapshots in progress.
func (m *room) awaitShown(ctx context.Context, s *phase.Scope, of *preflight.Source) error {
	busy := of.Busy
	if len(busy) == 0 {
		return nil
	}
	total := int64(len(busy))
	s.Expect(total, "volumes")
	waiting, cancel := context.WithTimeout(ctx, m.opts.PendingTimeout)
	defer cancel()
	var count map[cluster.VolumeID]int
	pace := func(last time.Duration) time.Duration { return min(ebs.NextPoll(last), m.opts.PendingTimeout/10) }
	err := wait.Until(waiting, pace, func() (bool, error) {
		now, n, err := preflight.Busy(waiting, m.ebs, &of.Topology)
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
		"after %s these volumes have as many snapshots in progress or in error as EC2 allows: %s",
		m.opts.PendingTimeout, failure.List(texts)).
		WithHint("delete those in error, wait until the others are completed, or raise --pending-timeout")
}
