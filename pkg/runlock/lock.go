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

// Lock is a cluster's lock in our hands. It is safe for concurrent use.
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

// renewInterval is short, so that others see soon that an owner is dead, however long its lease is.
func renewInterval(ttl time.Duration) time.Duration { return min(ttl/3, maxRenewInterval) }

// Acquire takes the cluster's lock for ttl, or fails at once: Conflict if another run holds it, with who, since when
// and when it was renewed last in the text. A lock that was released is taken over with the next epoch, and so is an
// expired one of an owner that does not say how often it renews; one that does has to be watched first. Of several that
// acquire at the same time exactly one succeeds, also of the same owner. The lock is not renewed until Keep is called.
// A lost answer is settled by reading back; if that fails too, the error is the store's and the lock, if we got it
// after all, expires.
func Acquire(
	ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration,
) (*Lock, error) {
	return acquire(ctx, store, name, owner, ttl, "", 0)
}

// acquire is Acquire with an epoch above after; the lock in the version dead is free, as its owner is known to be dead.
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

// Epoch is the lock's fencing number: higher than that of every owner before.
func (l *Lock) Epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Epoch
}

// Renew extends the lock by its ttl from now. It is Conflict if the lock is lost: stop all work
// then. After any other error the lock may still be held until its expiry; renew again.
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

// Release frees the lock for the next run. It does nothing, and succeeds, if the lock is lost.
// Call it with a context that outlives the run's: on any error the lock frees itself by expiry.
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

// readopt settles a Conflict: an earlier renewal whose answer was lost may have moved our own record on.
// If the stored record is still this owner's it is written over, otherwise the error names the new owner.
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
		return "", failure.New(failure.Conflict, "", "", "it was released by somebody else")
	case version == l.version:
		return "", conflict
	}
	return write(ctx, l.store, next, version)
}

// Refusal is the Conflict with which Acquire would end now: who holds the cluster's lock, and since when. It is nil
// if the lock is free or cannot be read; nothing is written.
func Refusal(ctx context.Context, store objstore.Store, name cluster.Name) error {
	now := time.Now()
	if r, _, err := Read(ctx, store, name); err == nil && r.Held(now) {
		return held(r, now)
	}
	return nil
}

// lostRace names the winner, if a conflict says that there is one.
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
		WithHint("wait for that run, or if it is dead %s", r.freeAfter(now))
}
