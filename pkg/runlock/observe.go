package runlock

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Finding is what somebody who does not want the lock found out about it.
type Finding struct {
	Record *Record // nil if nobody ever took the lock
	// Dead says that the owner of a lock that was not released did not renew it while it was watched.
	Dead bool

	version objstore.Version
	renewed bool // while it was watched
}

// Held reports whether the lock keeps others out at the time: its owner is alive, or not known to be dead.
func (f Finding) Held(now time.Time) bool { return f.Record != nil && !f.Dead && f.Record.Held(now) }

// Observe finds out whether a run that is alive holds the lock, as Take does before it takes one over: it is watched
// for about a minute, and watching is called first (nil is not). One that seems to have been renewed a moment ago is
// taken for held at once, whatever the clocks: nobody takes it then. Nothing is written. A lock that nobody ever took
// is no error.
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

// Same reports whether the lock is still as it was found: what was found out about its owner holds then.
func (f Finding) Same(ctx context.Context, store objstore.Store, name cluster.Name) bool {
	_, version, err := Read(ctx, store, name)
	return err == nil && version == f.version
}

// Free releases a lock whose owner was found to be dead, before anything of that owner is changed: one that was only
// suspended learns of it at its Fence. It is Conflict if the lock was written since, and does nothing if the owner
// was not found to be dead.
func (f Finding) Free(ctx context.Context, store objstore.Store) error {
	if !f.Dead {
		return nil
	}
	next := *f.Record
	next.Released = true
	_, err := write(ctx, store, &next, f.version)
	if failure.Is(err, failure.Conflict) {
		err = failure.New(failure.Conflict, "", "", "its run is alive after all, or another has it: %w", err)
	}
	return failure.Annotate(err, "free lock", next.Cluster.String())
}
