package ebs

import (
	"sync"
	"time"
)

// VisibleWithin is how long EC2 may not show a new resource, by id or by tag. Users saw 20 s; AWS gives no bound, only
// the advice to retry with growing waits (Amazon EC2 Developer Guide, "Eventual consistency":
// https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html). A minute is three times what was seen.
const VisibleWithin = time.Minute

// recentIDs remembers what this process created within the last minute, so that "not found" is not mistaken for "gone"
// while EC2 does not show it yet, which would make a delete leak the resource.
type recentIDs struct {
	clock Clock
	mu    sync.Mutex
	made  map[string]time.Time
}

func newRecentIDs(clock Clock) *recentIDs {
	return &recentIDs{clock: clock, made: map[string]time.Time{}}
}

func (r *recentIDs) add(id string) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, at := range r.made {
		if now.Sub(at) > VisibleWithin {
			delete(r.made, old)
		}
	}
	r.made[id] = now
}

// has reports whether the id was made less than a minute ago.
func (r *recentIDs) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.made[id]
	return ok && r.clock.Now().Sub(at) <= VisibleWithin
}

// forget is called after a deletion, when "not found" becomes reliable.
func (r *recentIDs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, id)
}
