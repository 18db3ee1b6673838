package runs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/wait"
)

// LookAgain reads a run that seems to be dead once more, after a time in which its owner would have renewed the lock:
// one whose clock is behind ours is then not Silent any more. Any other run is returned as it is, at once.
func LookAgain(ctx context.Context, store objstore.Store, r *Run) (*Run, error) {
	if !r.Silent {
		return r, nil
	}
	if err := wait.For(ctx, lookAgain(r)); err != nil {
		return nil, failure.Annotate(err, "look at lock again", string(r.ID))
	}
	now, err := Read(ctx, store, r.ID)
	if err == nil && now.Silent && (now.lock.Epoch != r.lock.Epoch || now.lock.Renewals != r.lock.Renewals) {
		now.Silent = false // it was renewed while we looked, whatever the clocks say
	}
	return now, err
}

// lookAgain is longer than the owner takes from one renewal to the next, the request itself included.
func lookAgain(r *Run) time.Duration { return r.lock.RenewInterval() * 5 / 4 }
