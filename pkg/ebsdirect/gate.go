package ebsdirect

import (
	"context"
	"slices"
	"sync"
)

// gate bounds the calls in flight by a number that changes. They enter in the order in which they came.
type gate struct {
	mu      sync.Mutex
	most    int
	inside  int
	waiting []chan struct{}
}

// enter waits for a place, which leave gives back. It returns ctx's error, and no place, if that ends before.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if g.inside < g.most && len(g.waiting) == 0 {
		g.inside++
		g.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	g.waiting = append(g.waiting, place)
	g.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, place); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // the place came at the same time
		g.inside--
		g.admit()
	}
	return ctx.Err()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// allow changes the number of places.
func (g *gate) allow(most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = most
	g.admit()
}

func (g *gate) admit() {
	for g.inside < g.most && len(g.waiting) > 0 {
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
		g.inside++
	}
}
