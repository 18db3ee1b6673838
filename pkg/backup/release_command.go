package backup

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// ReleaseOptions are what the user chose for a release.
type ReleaseOptions struct {
	Cluster cluster.Name
	Force   bool // break the lock of a run that is known to be dead
	All     bool // resume all schedulers and drop all overrides that a hold makes, whoever made them
}

// Leftover is what dead runs hold of a cluster, by their journals and by PD. The leases and suspensions on the
// stores cannot be read: a release ends them all.
type Leftover struct {
	hold.Leftover
	// Status is all that is paused in PD, whoever did it.
	Status *hold.Status
	// Dead are the runs whose journals say that they held the cluster and did not let it go.
	Dead []cluster.RunID

	lock *runlock.Record
}

// PlanRelease finds out what a release would let go, and changes nothing. It is Conflict while the lock of a
// run is alive, unless Force is to break it.
func PlanRelease(ctx context.Context, store objstore.Store, p hold.PD, o ReleaseOptions) (*Leftover, error) {
	left := &Leftover{Leftover: hold.Leftover{Cluster: o.Cluster, All: o.All}}
	lock, _, err := runlock.Read(ctx, store, o.Cluster)
	switch {
	case failure.Is(err, failure.NotFound):
	case err != nil:
		return nil, err
	case lock.Held(time.Now()) && !o.Force:
		return nil, failure.New(failure.Conflict, "release", o.Cluster.String(), "%s holds the cluster's lock until %s",
			lock.Owner, lock.FreeAt().UTC().Format(time.RFC3339)).
			WithHint("end that run, which lets the cluster go; if it is dead, use --force or wait until its lock expires")
	case lock.Held(time.Now()):
		left.lock = lock
	}
	held, err := holdings(ctx, store, o.Cluster)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		left.Dead = append(left.Dead, h.run)
		left.Schedulers = append(left.Schedulers, h.schedulers...)
		left.Limits = append(left.Limits, h.limits...)
	}
	slices.Sort(left.Schedulers)
	left.Schedulers = slices.Compact(left.Schedulers)
	slices.Sort(left.Limits)
	left.Limits = slices.Compact(left.Limits)
	if left.Status, err = describePauses(ctx, p, held); err != nil {
		return nil, failure.Annotate(err, "release", o.Cluster.String())
	}
	return left, nil
}

// Status shows what is paused in PD, and by which runs as far as the journals in the storage say; none with a nil
// store. Nothing is changed.
func Status(ctx context.Context, store objstore.Store, p hold.PD, name cluster.Name) (*hold.Status, error) {
	var held []holding
	if store != nil {
		var err error
		if held, err = holdings(ctx, store, name); err != nil {
			return nil, err
		}
	}
	return describePauses(ctx, p, held)
}

func describePauses(ctx context.Context, p hold.PD, held []holding) (*hold.Status, error) {
	status, err := hold.Describe(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		status.Attribute(h.run, h.schedulers, h.limits)
	}
	return status, nil
}

// Release lets go what runs that died hold of a cluster. It is Conflict while the lock of a run is alive,
// unless Force breaks it: a run that lives after all then ends.
func Release(ctx context.Context, store objstore.Store, p hold.PD, t tikv.Holder, o ReleaseOptions) (*hold.Released, error) {
	left, err := PlanRelease(ctx, store, p, o)
	if err != nil {
		return nil, err
	}
	if left.lock != nil {
		if err := runlock.Break(ctx, store, o.Cluster, left.lock.Epoch); err != nil {
			return nil, err
		}
	}
	return hold.ReleaseLeftovers(ctx, left.Leftover, p, t)
}
