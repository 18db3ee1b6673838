package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/runlock"
)

// givenUp reports whether another run has, or may have, the cluster: this run lost its lock, its stores were asked
// to follow somebody else, or the lock is another run's by now. What is there is not this run's to delete then.
// A lock that cannot be read is still ours: nobody could take it while it was renewed.
func (t *task) givenUp(ctx context.Context) bool {
	if t.resolver.TakenOver() {
		return true
	}
	lock, _, err := runlock.Read(ctx, t.Store, t.opts.Target)
	if err == nil && lock.Owner.Run != t.opts.Run {
		t.resolver.Yield()
		return true
	}
	return false
}
