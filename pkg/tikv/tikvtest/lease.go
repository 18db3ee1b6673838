package tikvtest

import (
	"context"
	"sync"
	"time"
)

// lease is the prepare-snapshot lease: one deadline a store, not a stream, so it outlives a lost stream, and
// two clients can fool each other. The zero value is no lease.
type lease struct {
	mu       sync.Mutex
	deadline time.Time
	streams  uint64
	abort    context.CancelFunc // ends the newest stream
}

// left is the time until the lease ends, or 0.
func (l *lease) left(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.deadline.Sub(now))
}

// extend moves the deadline to at least now+d, never back, and reports whether the lease was valid before.
func (l *lease) extend(now time.Time, d time.Duration) (wasValid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wasValid = l.deadline.After(now)
	if end := now.Add(d); end.After(l.deadline) {
		l.deadline = end
	}
	return wasValid
}

// finish ends the lease and reports whether it was valid.
func (l *lease) finish(now time.Time) (wasValid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wasValid = l.deadline.After(now)
	l.deadline = time.Time{}
	return wasValid
}

// open registers a stream and ends the one before.
func (l *lease) open(abort context.CancelFunc) (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abort != nil {
		l.abort()
	}
	l.streams++
	l.abort = abort
	return l.streams
}

// newest reports whether no stream was opened after this one.
func (l *lease) newest(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams == number
}
