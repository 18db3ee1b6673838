package runlock

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// How long a confirmation counts, and how long object storage may take to answer one.
const (
	confirmedFor = 2 * time.Second
	checkTimeout = 2 * time.Second
)

// confirmation is when the lock was last known to be held, and until when its lease runs.
type confirmation struct {
	mu    sync.Mutex
	at    time.Time
	until time.Time // when the lease ends by our clocks
}

func (c *confirmation) renewed(at time.Time, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.until = at, at.Add(ttl)
}

func (c *confirmation) confirm(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.at) {
		c.at = at
	}
}

// fresh reports whether the lock was confirmed a moment ago. A machine that was suspended may show only by its wall
// clock that it was.
func (c *confirmation) fresh(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.at) < confirmedFor && now.Round(0).Sub(c.at.Round(0)) < confirmedFor
}

func (c *confirmation) leaseEnd() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// check is Fence.Check of one lock.
func (l *Lock) check(ctx context.Context) error {
	if l.confirmed.fresh(time.Now()) {
		return nil
	}
	l.checking.Lock()
	defer l.checking.Unlock()
	start := time.Now()
	if l.confirmed.fresh(start) {
		return nil // another caller has checked
	}
	read, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	current, _, err := Read(read, l.store, l.cluster)
	switch {
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "check lock", l.cluster.String())
	case failure.Is(err, failure.NotFound):
		return failure.New(failure.Conflict, "check lock", l.cluster.String(), "the lock's object was deleted")
	case failure.Is(err, failure.Corrupt):
		return failure.Annotate(err, "check lock", l.cluster.String())
	case err != nil && start.Before(l.confirmed.leaseEnd()):
		start = time.Now() // a check that timed out counts from its end, or every call would wait for one
	case err != nil:
		return &failure.Error{Op: "check lock", Target: l.cluster.String(), Kind: failure.Conflict, Err: err, Hint: "see why object storage does not answer, then run again"}
	case current.Nonce != l.nonce:
		return takenOver(current)
	case current.Released:
		return failure.New(failure.Conflict, "check lock", l.cluster.String(), "it was released by somebody else")
	}
	l.confirmed.confirm(start)
	return nil
}

func takenOver(by *Record) error {
	return failure.New(failure.Conflict, "check lock", by.Cluster.String(), "it was taken over by %s, epoch %d", by.Owner, by.Epoch)
}
