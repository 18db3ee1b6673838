package runlock

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Keep renews the lock, three times a lease or each 20 s, until stop is called or ctx ends. The context that it returns
// ends with ctx, and as soon as the lock is lost or its lease is about to run out: its cause is then a
// Conflict that says why. stop waits for the renewals to end; call it before Release. It may be called twice.
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

// keep returns why the lock is lost, or nil when ctx ended.
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
		// The end of the lease ends the renewals, with a margin to stop what needs the lock. One that hangs is retried.
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
				Hint: "see why object storage does not answer, then run again"}
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
