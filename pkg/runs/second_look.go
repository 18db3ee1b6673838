package runs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/wait"
)

// LookAgain rereads a run that seems dead, after a time in which a live owner would have renewed the lock: an owner
// whose clock is behind ours is then no longer Silent. Any other run is returned unchanged, at once.
func LookAgain(ctx context.Context, store objstore.Store, r *Run) (*Run, error) {
	if !r.Silent {
		return r, nil
	}
	if err := wait.For(ctx, lookAgain(r)); err != nil {
		return nil, failure.Annotate(err, "look at lock again", string(r.ID))
	}
	now, err := Read(ctx, store, r.ID)
	if err == nil && now.Silent && (now.lock.Epoch != r.lock.Epoch || now.lock.Renewals != r.lock.Renewals) {
		now.Silent = false // it was renewed while we looked, whatever the clocks show
	}
	return now, err
}

// lookAgain is longer than the time between two renewals, request included.
func lookAgain(r *Run) time.Duration { return r.lock.RenewInterval() * 5 / 4 }
