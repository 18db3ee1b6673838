package tikvtest

import (
	"context"
	"slices"
	"sync"
)

// latch lets commands on the same keys of a region run one after the other, from reading to applied.
// The zero value is ready.
type latch struct {
	mu        sync.Mutex
	held      map[string]struct{}
	exclusive bool
	waiting   []*latchWaiter
}

type latchWaiter struct {
	keys      []string
	exclusive bool
	ready     chan struct{}
}

// acquire waits until no other command holds one of keys and returns the release function, which may be
// called from any goroutine. No keys means the whole region. It fails only with ctx's error.
func (l *latch) acquire(ctx context.Context, keys [][]byte) (release func(), err error) {
	w := &latchWaiter{exclusive: len(keys) == 0, ready: make(chan struct{})}
	for _, k := range keys {
		w.keys = append(w.keys, string(k))
	}
	slices.Sort(w.keys)
	w.keys = slices.Compact(w.keys)
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.grant()
	l.mu.Unlock()
	select {
	case <-w.ready:
		return sync.OnceFunc(func() { l.release(w) }), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		l.drop(w)
	}
	l.grant()
	return nil, ctx.Err()
}

func (l *latch) release(w *latchWaiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(w)
	l.grant()
}

func (l *latch) drop(w *latchWaiter) {
	for _, k := range w.keys {
		delete(l.held, k)
	}
	if w.exclusive {
		l.exclusive = false
	}
}

// grant lets waiters in, in order; one may overtake those before it only if it shares no key with them.
func (l *latch) grant() {
	if l.held == nil {
		l.held = map[string]struct{}{}
	}
	var ahead map[string]struct{}
	rest := l.waiting[:0]
	for i, w := range l.waiting {
		if l.admits(w, ahead) && (len(rest) == 0 || !w.exclusive) {
			for _, k := range w.keys {
				l.held[k] = struct{}{}
			}
			l.exclusive = l.exclusive || w.exclusive
			close(w.ready)
			continue
		}
		rest = append(rest, w)
		if w.exclusive {
			rest = append(rest, l.waiting[i+1:]...)
			break
		}
		if ahead == nil {
			ahead = map[string]struct{}{}
		}
		for _, k := range w.keys {
			ahead[k] = struct{}{}
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
}

func (l *latch) admits(w *latchWaiter, ahead map[string]struct{}) bool {
	if l.exclusive || (w.exclusive && len(l.held) > 0) {
		return false
	}
	for _, k := range w.keys {
		_, taken := l.held[k]
		_, queued := ahead[k]
		if taken || queued {
			return false
		}
	}
	return true
}
