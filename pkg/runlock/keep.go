package runlock

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Keep renews the lock, three times per lease or every 20 s, until stop is called or ctx ends. The returned context
// ends with ctx, or as soon as the lock is lost or its lease is about to expire: its cause is then a Conflict with the
// reason. stop waits for the renewals to end; call it before Release. It is idempotent.
func (l *Lock) Keep(ctx context.Context) (kept context.Context, stop func()) {
	kept, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.keep(kept); err != nil {
			lose(err)
		}
	}()
	return kept, func() {
		lose(context.Canceled)
		<-done
	}
}

// keep returns why the lock was lost, or nil when ctx ended.
func (l *Lock) keep(ctx context.Context) error {
	interval := l.every
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		// Renewals end with the lease, with a margin to stop whatever needs the lock. A hanging renewal is retried.
		limit := l.confirmed.leaseEnd().Add(-l.ttl / 10)
		attempt, cancel := context.WithDeadline(ctx, earlier(limit, time.Now().Add(interval)))
		err := l.Renew(attempt)
		cancel()
		wait := interval
		switch {
		case ctx.Err() != nil:
			return nil
		case failure.Is(err, failure.Conflict):
			return err
		case err != nil && !time.Now().Before(limit):
			return &failure.Error{Op: "keep lock", Target: l.name(), Kind: failure.Conflict, Err: err,
				Hint: "find out why object storage does not answer, then run again"}
		case err != nil:
			wait = min(interval/5, time.Until(limit))
		}
		timer.Reset(wait)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (l *Lock) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Cluster.String()
}
