package runlock

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// How long a confirmation is valid, and how long object storage may take to answer one.
const (
	confirmedFor = 2 * time.Second
	checkTimeout = 2 * time.Second
)

// confirmation is when the lock was last known to be held, and when its lease ends.
type confirmation struct {
	mu    sync.Mutex
	at    time.Time
	renew time.Time // when the last successful renewal began
	until time.Time // when the lease ends by our clocks
}

func (c *confirmation) renewed(at time.Time, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.renew, c.until = at, at, at.Add(ttl)
}

func (c *confirmation) confirm(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.at) {
		c.at = at
	}
}

// fresh reports whether the lock was confirmed a moment ago.
func (c *confirmation) fresh(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return wait.Younger(c.at, confirmedFor, now)
}

func (c *confirmation) leaseEnd() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// check is Fence.Check for one lock. Others take over a lock that was not renewed for watchedRenewals intervals, so
// while object storage does not answer, the lock counts as held for less than that; after that check waits for an
// answer.
func (l *Lock) check(ctx context.Context) error {
	if l.confirmed.fresh(time.Now()) {
		return nil
	}
	l.checking.Lock()
	defer l.checking.Unlock()
	for {
		start := time.Now()
		if l.confirmed.fresh(start) {
			return nil // another caller has checked
		}
		err := l.stillHeld(ctx)
		switch {
		case err == nil:
			l.confirmed.confirm(start)
			if l.confirmed.fresh(time.Now()) {
				return nil
			}
			continue // the process was suspended before it read the answer: another may have the lock by now
		case ctx.Err() != nil:
			return failure.Annotate(context.Cause(ctx), "check lock", l.cluster.String())
		case failure.Is(err, failure.Conflict), failure.Is(err, failure.Corrupt):
			return err
		case l.trusted(time.Now()): // not checked earlier: the process may have been suspended since
			// a check that timed out counts from its end, or every call would wait for one
			l.confirmed.confirm(time.Now())
			return nil
		case start.After(l.confirmed.leaseEnd()):
			return &failure.Error{
				Op: "check lock", Target: l.cluster.String(), Kind: failure.Conflict, Err: err,
				Hint: "find out why object storage does not answer, then run again",
			}
		}
		if err := wait.For(ctx, checkTimeout); err != nil {
			return failure.Annotate(err, "check lock", l.cluster.String())
		}
	}
}

// trusted reports whether the last renewal is so recent that no other run can have taken over the lock.
func (l *Lock) trusted(now time.Time) bool {
	l.confirmed.mu.Lock()
	defer l.confirmed.mu.Unlock()
	return wait.Younger(l.confirmed.renew, trustedRenewals*l.every/2, now)
}

// stillHeld reads the lock. It returns a Conflict if the lock is lost, or the store's error.
func (l *Lock) stillHeld(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	current, _, err := Read(ctx, l.store, l.cluster)
	switch {
	case failure.Is(err, failure.NotFound):
		return deleted(l.cluster)
	case err != nil:
		return failure.Annotate(err, "check lock", l.cluster.String())
	case current.Nonce != l.nonce:
		return lostTo(current)
	case current.Released:
		return releasedByOthers(l.cluster)
	}
	return nil
}

func lostTo(by *Record) error {
	return failure.New(failure.Conflict, "check lock", by.Cluster.String(), "it was taken over by %s, epoch %d",
		by.Owner, by.Epoch)
}

func releasedByOthers(name cluster.Name) error {
	return failure.New(failure.Conflict, "check lock", name.String(), "it was released by another process")
}

func deleted(name cluster.Name) error {
	return failure.New(failure.Conflict, "check lock", name.String(), "the lock's object was deleted")
}
