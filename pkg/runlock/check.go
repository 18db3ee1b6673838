package runlock

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// The look of Check: how long one counts, and how long object storage may take to answer it.
const (
	freshFor    = 2 * time.Second
	lookTimeout = 2 * time.Second
)

// sighting is when the lock was last seen to be ours.
type sighting struct {
	mu    sync.Mutex
	at    time.Time
	until time.Time // when the lease runs out by our clocks
}

func (s *sighting) renewed(at time.Time, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.until = at, at.Add(ttl)
}

func (s *sighting) again(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.at) {
		s.at = at
	}
}

// fresh reports whether the lock was seen a moment ago. A machine that was suspended may tell only by its wall
// clock that it was.
func (s *sighting) fresh(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.at) < freshFor && now.Round(0).Sub(s.at.Round(0)) < freshFor
}

func (s *sighting) leaseEnd() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// Check confirms that the lock is this run's still. Call it right before what two runs must not both do: a
// process that stood still, and whose lock was given to another run meanwhile, learns of it by the next renewal
// only, which is too late. A look counts for 2 s, so that it may be called often. It is Conflict if the lock is
// ours no more. If object storage does not answer, the lease that it gave before counts, as long as it runs.
func (l *Lock) Check(ctx context.Context) error {
	if l.seen.fresh(time.Now()) {
		return nil
	}
	l.looking.Lock()
	defer l.looking.Unlock()
	start := time.Now()
	if l.seen.fresh(start) {
		return nil // somebody else has looked
	}
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	current, _, err := Read(look, l.store, l.cluster)
	switch {
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "check lock", l.cluster.String())
	case failure.Is(err, failure.NotFound):
		return failure.New(failure.Conflict, "check lock", l.cluster.String(), "the lock's object was deleted")
	case failure.Is(err, failure.Corrupt):
		return failure.Annotate(err, "check lock", l.cluster.String())
	case err != nil && start.Before(l.seen.leaseEnd()):
		start = time.Now() // a look that took its whole time counts from its end, or all calls would wait for looks
	case err != nil:
		return &failure.Error{Op: "check lock", Target: l.cluster.String(), Kind: failure.Conflict, Err: err, Hint: "see why object storage does not answer, then run again"}
	case current.Nonce != l.nonce:
		return failure.New(failure.Conflict, "check lock", l.cluster.String(), "it was taken over by %s, epoch %d", current.Owner, current.Epoch)
	case current.Released:
		return failure.New(failure.Conflict, "check lock", l.cluster.String(), "it was released by somebody else")
	}
	l.seen.again(start)
	return nil
}

// Check is that of the lock. Nil is no lock, and nobody's.
func (k *Kept) Check(ctx context.Context) error {
	if k == nil {
		return failure.New(failure.Conflict, "check lock", cluster.Name{}.String(), "it was not taken")
	}
	return k.lock.Check(ctx)
}
