package runlock

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/wait"
)

// An owner that misses watchedRenewals intervals, by the watcher's clock, is dead or suspended: after trustedRenewals
// half intervals without a renewal it changes nothing any more.
const (
	watchedRenewals = 3
	trustedRenewals = 5 // halves
)

// watch finds out whether the owner of a held lock is dead. It compares no clocks: it must see the same version for
// watchedRenewals intervals. The owner is alive, and the record the newest seen, as soon as the lock is renewed or
// changes hands, after the limit, and at once if the lock has no renewal interval. watching is called if the wait takes
// longer.
func watch(
	ctx context.Context, store objstore.Store, name cluster.Name, limit time.Duration, watching func(*Record),
) (Finding, error) {
	first, version, err := Read(ctx, store, name)
	if err != nil {
		return Finding{}, err
	}
	start, every := time.Now(), first.RenewInterval()
	if every <= 0 || first.Released {
		return Finding{Record: first, version: version}, nil
	}
	watching(first)
	for time.Since(start) <= watchedRenewals*every {
		left := limit - time.Since(start)
		if left <= 0 {
			return Finding{Record: first, version: version}, nil
		}
		if err := wait.For(ctx, min(every/4, left)); err != nil {
			return Finding{}, failure.Annotate(err, "watch lock", name.String())
		}
		current, now, err := Read(ctx, store, name)
		switch {
		case failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt):
			return Finding{}, err
		case err == nil && (now != version || current.Released):
			return Finding{Record: current, version: now, renewed: !current.Released}, nil
		}
	}
	return Finding{Record: first, Dead: true, version: version}, nil // a write that depends on this version may free it
}
