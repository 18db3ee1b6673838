package backup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// ReleaseOptions are what the user chose for a release.
type ReleaseOptions struct {
	Cluster cluster.Name
	Force   bool // break a lock whose run is known to be dead
	// EarlyApply restores what dead runs turned off; nil does not, which is an error of kind Held if there is any.
	EarlyApply tikv.EarlyApplier
	All        bool // resume all schedulers and drop all overrides of the kinds that a hold uses, whoever made them
	// Planned is the result of an earlier PlanRelease, if any: a lock that has not changed since is not watched again.
	Planned *Leftover
	// Watching, if not nil, is called if a lock's run seems dead: making sure takes a minute.
	Watching func(held *runlock.Record)
}

// HeldPD shows what is held of a cluster, and PD's record of it.
type HeldPD interface {
	hold.PD
	pd.Notes
}

// Leftover is what dead runs hold of a cluster, by their journals and by PD. Leases and suspensions on stores cannot be
// read: a release ends them all.
type Leftover struct {
	hold.DeadHolds
	// Status is everything paused in PD, by anyone.
	Status *hold.Status
	// Dead are the runs that held the cluster and did not release it, by their journals.
	Dead []cluster.RunID
	// Early has the old settings of stores on which dead runs turned early apply off.
	Early []earlyapply.Setting
	// Unread is why PD's record of early apply could not be read. All else is released regardless.
	Unread error

	lock runlock.Finding
	// others is set if the lock belongs to a run of another cluster of the same name, and so does not concern this one.
	others error
}

// observe finds out whether the lock's owner is alive; with Force it does not wait for that.
func (o ReleaseOptions) observe(ctx context.Context, store objstore.Store) (runlock.Finding, error) {
	if o.Planned != nil && o.Planned.lock.Dead && o.Planned.lock.Same(ctx, store, o.Cluster) {
		return o.Planned.lock, nil
	}
	if !o.Force {
		return runlock.Observe(ctx, store, o.Cluster, o.Watching)
	}
	record, _, err := runlock.Read(ctx, store, o.Cluster)
	if failure.Is(err, failure.NotFound) {
		return runlock.Finding{}, nil
	}
	return runlock.Finding{Record: record}, err
}

// PlanRelease finds out what a release would end. It changes nothing. It returns a Conflict while the lock's run is
// alive, unless Force breaks it. A lock that is not renewed is watched first, as by a backup that takes it over.
func PlanRelease(ctx context.Context, store objstore.Store, p HeldPD, o ReleaseOptions) (*Leftover, error) {
	left := &Leftover{DeadHolds: hold.DeadHolds{Cluster: o.Cluster, All: o.All}}
	id, err := p.ClusterID(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read cluster id", o.Cluster.String())
	}
	left.others = runs.CheckOwner(ctx, store, o.Cluster, &journal.About{Cluster: o.Cluster, ClusterID: id})
	switch {
	case failure.Is(left.others, failure.Conflict): // do not wait for its lock or break it
	case left.others != nil:
		return nil, left.others
	default:
		if left.lock, err = o.observe(ctx, store); err != nil {
			return nil, err
		}
	}
	if lock := left.lock.Record; left.lock.Held(time.Now()) && !o.Force {
		return nil, failure.New(failure.Conflict, "release", o.Cluster.String(), "%s holds the cluster's lock until %s",
			lock.Owner, lock.FreeAt().UTC().Format(time.RFC3339)).
			WithHint("end that run, which releases the cluster; if it is dead, run this again in a minute, or use " +
				"--force")
	}
	held, until, err := holdingsUntil(ctx, store, p, o.Cluster)
	if err != nil {
		return nil, err
	}
	if !o.Force { // otherwise the run may be alive, and would renew what it holds
		left.Expires = until
	}
	for _, h := range held {
		left.Dead = append(left.Dead, h.run)
		left.Schedulers = append(left.Schedulers, h.Schedulers...)
		left.Limits = append(left.Limits, h.Limits...)
		left.Early = append(left.Early, h.early...)
	}
	slices.Sort(left.Schedulers)
	left.Schedulers = slices.Compact(left.Schedulers)
	slices.Sort(left.Limits)
	left.Limits = slices.Compact(left.Limits)
	recorded, _, unread := recordedEarly(ctx, p, o.Cluster)
	left.Unread = unread
	if left.Status, err = describePauses(ctx, p, held, recorded); err != nil {
		return nil, failure.Annotate(err, "release", o.Cluster.String())
	}
	left.addRecorded(recorded, o.Force || o.All)
	return left, nil
}

// addRecorded adds what only PD's record has, unless the run still has its GC safe point: it may be alive.
func (l *Leftover) addRecorded(recorded []earlyapply.Recorded, all bool) {
	for _, r := range recorded {
		holds := slices.ContainsFunc(l.Status.SafePoints, func(p hold.SafePoint) bool { return p.Run == r.By })
		if !earlyapply.Names(l.Early, r.Store) && (all || !holds) {
			l.Early = append(l.Early, r.Setting)
		}
	}
}

// recordedEarly returns the stores in PD and its record of them.
func recordedEarly(
	ctx context.Context, p notedPD, name cluster.Name,
) ([]earlyapply.Recorded, []earlyapply.Store, error) {
	stores, err := tikvStores(ctx, p, name)
	if err != nil {
		return nil, nil, err
	}
	recorded, err := earlyapply.ReadRecord(ctx, p, stores)
	return recorded, stores, err
}

// Status shows what is paused in PD, and by which runs according to PD's record and the journals in the storage, which
// may be nil. t reads early apply from the stores; nil does not. It changes nothing. A status with an error lacks PD's
// record of early apply.
func Status(
	ctx context.Context, store objstore.Store, p HeldPD, t tikv.EarlyApplier, name cluster.Name,
) (*hold.Status, error) {
	var held []holding
	if store != nil {
		var err error
		if held, err = holdings(ctx, store, p, name); err != nil {
			return nil, err
		}
	}
	recorded, stores, unread := recordedEarly(ctx, p, name)
	status, err := describePauses(ctx, p, held, recorded)
	if err != nil {
		return nil, err
	}
	if t != nil {
		status.EarlyApply = withCurrent(status.EarlyApply, earlyapply.Read(ctx, t, stores))
	}
	return status, unread
}

// withCurrent adds what the stores report now. One with a limit above 0 has nothing to restore.
func withCurrent(journalled []hold.EarlyApply, now *earlyapply.Survey) []hold.EarlyApply {
	off := uint64(0)
	out := slices.DeleteFunc(journalled, func(e hold.EarlyApply) bool {
		return slices.ContainsFunc(now.On, func(on earlyapply.Setting) bool { return on.Store == e.Store })
	})
	for _, id := range now.Off {
		known := false
		for i := range out {
			if out[i].Store == id {
				out[i].Now, known = &off, true
			}
		}
		if !known {
			out = append(out, hold.EarlyApply{Store: id, Now: &off})
		}
	}
	return out
}

func describePauses(
	ctx context.Context, p hold.PD, held []holding, recorded []earlyapply.Recorded,
) (*hold.Status, error) {
	status, err := hold.Describe(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		status.Attribute(h.run, h.Schedulers, h.Limits)
		for _, s := range h.early {
			status.EarlyApply = append(status.EarlyApply, hold.EarlyApply{Store: s.Store, Limit: s.Limit, By: h.run})
		}
	}
	for _, r := range recorded {
		e := hold.EarlyApply{Store: r.Store, Limit: r.Limit, By: r.By, Since: r.Since}
		if _, holder, known := hold.SplitHolder(r.By); known {
			e.Holder = &holder
		}
		if i := slices.IndexFunc(status.EarlyApply, func(e hold.EarlyApply) bool { return e.Store == r.Store }); i < 0 {
			status.EarlyApply = append(status.EarlyApply, e)
		} else if status.EarlyApply[i].By == r.By {
			status.EarlyApply[i] = e
		}
	}
	return status, nil
}

// Release releases what dead runs still hold of a cluster. It returns a Conflict while the lock's run is alive, unless
// Force breaks the lock, which ends a run that is alive after all. A dead run's lock is freed, with a note that the
// cluster was released.
func Release(
	ctx context.Context, store objstore.Store, p HeldPD, t tikv.Holder, o ReleaseOptions,
) (*hold.Released, error) {
	left, err := PlanRelease(ctx, store, p, o)
	if err != nil {
		return nil, err
	}
	if left.others == nil {
		if err := left.freeLock(ctx, store); err != nil {
			return nil, err
		}
	}
	done, err := hold.ReleaseLeftovers(ctx, left.DeadHolds, p, t)
	if done != nil && len(left.Early) > 0 {
		// A permanently dead store has no setting any more: if it comes back it starts with its configured one.
		alive := slices.DeleteFunc(slices.Clone(left.Early),
			func(s earlyapply.Setting) bool { return slices.Contains(done.Unreached, s.Store) })
		put, earlyErr := putBack(ctx, p, o.EarlyApply, o.Cluster, alive)
		done.EarlyApply, err = put, errors.Join(err, earlyErr)
	}
	if err == nil && left.others == nil {
		err = runlock.NoteReleased(ctx, store, o.Cluster, time.Now())
	}
	if done != nil { // PD answers; a live pause has lost its hold by now, so what it read is useless
		err = errors.Join(err, earlyapply.Unpublish(ctx, p, ""))
	}
	return done, errors.Join(err, left.Unread)
}

func (l *Leftover) freeLock(ctx context.Context, store objstore.Store) error {
	if l.lock.Held(time.Now()) { // forced
		return runlock.Break(ctx, store, l.Cluster, l.lock.Record.Epoch)
	}
	return l.lock.Free(ctx, store)
}
