package runlock

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Lock is a cluster's lock that this process holds. It is safe for concurrent use.
type Lock struct {
	store objstore.Store
	ttl   time.Duration
	every time.Duration // between renewals

	cluster cluster.Name // these two never change
	nonce   string

	checking  sync.Mutex // one check at a time
	mu        sync.Mutex
	record    Record
	version   objstore.Version
	confirmed confirmation
}

// maxRenewInterval is how often a lock is renewed.
const maxRenewInterval = 20 * time.Second

// MinTTL is the shortest lease: a renewal is three requests to S3 at worst.
const MinTTL = time.Second

// renewInterval is short, so that others soon notice a dead owner, however long its lease.
func renewInterval(ttl time.Duration) time.Duration { return min(ttl/3, maxRenewInterval) }

// Acquire takes the cluster's lock for ttl, or fails at once: with a Conflict if another run holds it, whose text has
// the owner, since when, and the last renewal. A released lock is taken with the next epoch, and so is an expired one
// without a renewal interval; one with an interval must be watched first. Of concurrent calls exactly one succeeds,
// even for the same owner. The lock is not renewed until Keep is called. After a lost answer Acquire reads the lock
// back; if that fails too, it returns the store's error, and a lock acquired after all expires.
func Acquire(
	ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration,
) (*Lock, error) {
	return acquire(ctx, store, name, owner, ttl, "", 0)
}

// acquire is Acquire with an epoch above after; the lock at version dead is free because its owner is known to be dead.
func acquire(
	ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration, dead objstore.Version,
	after int64,
) (*Lock, error) {
	if ttl < MinTTL {
		return nil, failure.New(failure.Usage, "acquire lock", name.String(), "lease of %s is shorter than %s", ttl,
			MinTTL)
	}
	start := time.Now()
	old, version, err := Read(ctx, store, name)
	every := renewInterval(ttl)
	next := Record{Cluster: name, Owner: owner, Epoch: after + 1, Nonce: rand.Text(), RenewSeconds: every.Seconds()}
	switch {
	case failure.Is(err, failure.NotFound):
	case err != nil:
		return nil, failure.Annotate(err, "acquire lock", name.String())
	case old.Held(start) && version != dead:
		return nil, held(old, start)
	default:
		next.Epoch = max(old.Epoch, after) + 1
	}
	next.AcquiredAt, next.RenewedAt, next.ExpiresAt = start.UTC(), start.UTC(), start.Add(ttl).UTC()
	l := &Lock{store: store, ttl: ttl, every: every, cluster: name, nonce: next.Nonce, record: next}
	if l.version, err = write(ctx, store, &next, version); err != nil {
		return nil, l.lostRace(ctx, err)
	}
	l.confirmed.renewed(start, ttl)
	return l, nil
}

// Epoch returns the lock's fencing number: higher than that of every earlier owner.
func (l *Lock) Epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Epoch
}

// Renew extends the lock by its ttl from now. It returns a Conflict if the lock is lost: stop all work then. After any
// other error the lock may still be held until its expiry; renew again.
func (l *Lock) Renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := time.Now()
	next := l.record
	next.RenewedAt, next.ExpiresAt = start.UTC(), start.Add(l.ttl).UTC()
	next.Renewals++
	version, err := write(ctx, l.store, &next, l.version)
	if failure.Is(err, failure.Conflict) {
		version, err = l.readopt(ctx, &next, err)
	}
	if err != nil {
		return failure.Annotate(err, "renew lock", next.Cluster.String())
	}
	l.record, l.version = next, version
	l.confirmed.renewed(start, l.ttl)
	return nil
}

// Release frees the lock for the next run. If the lock is lost, it does nothing and succeeds. Call it with a context
// that outlives the run's. After an error the lock frees itself by expiry.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.record
	next.Released = true
	version, err := write(ctx, l.store, &next, l.version)
	if failure.Is(err, failure.Conflict) {
		if version, err = l.readopt(ctx, &next, err); failure.Is(err, failure.Conflict) {
			return nil
		}
	}
	if err != nil {
		return failure.Annotate(err, "release lock", next.Cluster.String())
	}
	l.record, l.version = next, version
	l.confirmed.renewed(time.Time{}, 0)
	return nil
}

// readopt resolves a Conflict: an earlier renewal with a lost answer may have changed our own record. A record that is
// still this owner's is overwritten; otherwise the error names the new owner.
func (l *Lock) readopt(ctx context.Context, next *Record, conflict error) (objstore.Version, error) {
	current, version, err := Read(ctx, l.store, next.Cluster)
	switch {
	case failure.Is(err, failure.NotFound):
		return "", failure.New(failure.Conflict, "", "", "the lock's object was deleted")
	case err != nil:
		return "", err
	case current.Nonce != next.Nonce:
		return "", failure.New(failure.Conflict, "", "", "it was taken over by %s, epoch %d", current.Owner,
			current.Epoch)
	case current.Released:
		return "", failure.New(failure.Conflict, "", "", "it was released by another process")
	case version == l.version:
		return "", conflict
	}
	return write(ctx, l.store, next, version)
}

// Refusal returns the Conflict that Acquire would return now, with the lock's owner and since when. It is nil if the
// lock is free or cannot be read; nothing is written.
func Refusal(ctx context.Context, store objstore.Store, name cluster.Name) error {
	now := time.Now()
	if r, _, err := Read(ctx, store, name); err == nil && r.Held(now) {
		return held(r, now)
	}
	return nil
}

// lostRace names the winner, if the conflict shows that there is one.
func (l *Lock) lostRace(ctx context.Context, err error) error {
	if failure.Is(err, failure.Conflict) {
		if winner, _, readErr := Read(ctx, l.store, l.record.Cluster); readErr == nil &&
			winner.Nonce != l.record.Nonce {
			return held(winner, time.Now())
		}
	}
	return failure.Annotate(err, "acquire lock", l.record.Cluster.String())
}

func held(r *Record, now time.Time) *failure.Error {
	return failure.New(failure.Conflict, "acquire lock", r.Cluster.String(), "held by %s since %s, %s",
		r.Owner, r.AcquiredAt.Format(time.RFC3339), r.heldUntil()).
		WithHint("wait for that run or, if it is dead, %s", r.freeAfter(now))
}
