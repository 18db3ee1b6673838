package runlock

import (
	"cmp"
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Finding is what an observer, who does not want the lock, found out about it.
type Finding struct {
	Record *Record // nil if the lock was never taken
	// Dead reports that the owner of an unreleased lock did not renew it while watched.
	Dead bool

	version objstore.Version
	renewed bool // while it was watched
}

// Held reports whether the lock excludes others at that time: its owner is alive, or not known to be dead.
func (f Finding) Held(now time.Time) bool { return f.Record != nil && !f.Dead && f.Record.Held(now) }

// Observe finds out whether a live run holds the lock, as Take does before it takes over: it watches the lock for about
// a minute, after calling watching if not nil. A lock that seems just renewed counts as held at once, whatever the
// clocks: this errs on the safe side. Nothing is written. A lock that was never taken is not an error.
func Observe(ctx context.Context, store objstore.Store, name cluster.Name, watching func(*Record)) (Finding, error) {
	if watching == nil {
		watching = func(*Record) {}
	}
	record, version, err := Read(ctx, store, name)
	switch now := time.Now(); {
	case err == nil && record.Held(now) && now.Sub(record.RenewedAt).Abs() >= record.RenewInterval():
		return watch(ctx, store, name, DefaultWait, watching)
	case failure.Is(err, failure.NotFound):
		return Finding{}, nil
	}
	return Finding{Record: record, version: version}, err
}

// Watch finds out whether a live run holds the lock, as Take does with the same limit: a lock that seems just renewed
// is watched, too. The owner counts as alive if it renews the lock, or after the limit; zero is DefaultWait, and NoWait
// watches nothing. Nothing is written. A lock that was never taken is not an error.
func Watch(
	ctx context.Context, store objstore.Store, name cluster.Name, limit time.Duration, watching func(*Record),
) (Finding, error) {
	record, version, err := Read(ctx, store, name)
	switch {
	case failure.Is(err, failure.NotFound):
		return Finding{}, nil
	case err != nil:
		return Finding{}, err
	case limit == NoWait || !record.Held(time.Now()):
		return Finding{Record: record, version: version}, nil
	}
	return watch(ctx, store, name, cmp.Or(limit, DefaultWait), watching)
}

// Same reports whether the lock is unchanged, so that the finding about its owner still holds.
func (f Finding) Same(ctx context.Context, store objstore.Store, name cluster.Name) bool {
	_, version, err := Read(ctx, store, name)
	return err == nil && version == f.version
}

// Free releases the lock of an owner found to be dead, before anything of that owner is changed: an owner that was only
// suspended notices at its Fence. It returns a Conflict if the lock was written since, and does nothing if the owner
// was not found to be dead.
func (f Finding) Free(ctx context.Context, store objstore.Store) error {
	if !f.Dead {
		return nil
	}
	next := *f.Record
	next.Released = true
	_, err := write(ctx, store, &next, f.version)
	if failure.Is(err, failure.Conflict) {
		err = failure.New(failure.Conflict, "", "", "its run is alive after all, or another run has it: %w", err)
	}
	return failure.Annotate(err, "free lock", next.Cluster.String())
}
