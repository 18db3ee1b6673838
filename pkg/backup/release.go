package backup

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Names in the journal that a later release reads.
const (
	stepHold         = "hold"
	stepRelease      = "release"
	intentSchedulers = "pause-schedulers"
	intentLimits     = "lower-limits"
)

// Names of other steps.
const (
	stepConnect = "connect"
	stepHoldGC  = "hold-gc"
	stepTS      = "backup-ts"
)

// journalAge is how old a journal may be to be looked at: pauses expire long before.
const journalAge = 24 * time.Hour

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
	if err := left.fromJournals(ctx, store); err != nil {
		return nil, err
	}
	if left.Status, err = hold.Look(ctx, p); err != nil {
		return nil, failure.Annotate(err, "release", o.Cluster.String())
	}
	return left, nil
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
	return hold.Recover(ctx, left.Leftover, p, t)
}

// fromJournals lists what runs of the cluster have paused in PD and not let go, by their journals.
func (l *Leftover) fromJournals(ctx context.Context, store objstore.Store) error {
	objects, err := store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return failure.Annotate(err, "list runs", l.Cluster.String())
	}
	var runs []cluster.RunID
	for _, o := range objects {
		run, _, ok := manifest.SplitJournalKey(o.Key)
		if ok && time.Since(o.Modified) < journalAge && !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		records, err := phase.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			continue // it names nothing that can be trusted: what stays paused is shown
		}
		if err != nil {
			return err
		}
		if paused, held := pausedBy(records, l.Cluster); held {
			l.Dead = append(l.Dead, run)
			l.Schedulers = append(l.Schedulers, paused.schedulers...)
			l.Limits = append(l.Limits, paused.limits...)
		}
	}
	slices.Sort(l.Schedulers)
	l.Schedulers = slices.Compact(l.Schedulers)
	slices.Sort(l.Limits)
	l.Limits = slices.Compact(l.Limits)
	return nil
}

// paused is what one run had paused in PD.
type paused struct{ schedulers, limits []string }

// pausedBy reads one journal: held is false if the run is of another cluster, never held it, or let it go.
func pausedBy(records []phase.Record, name cluster.Name) (what paused, held bool) {
	var of about
	if len(records) == 0 || json.Unmarshal(records[0].Data, &of) != nil || of.Cluster != name {
		return paused{}, false
	}
	for _, r := range records {
		var err error
		switch {
		case r.Type == phase.RecordBegin && r.Step == stepHold:
			held = true
		case r.Type == phase.RecordIntent && r.Name == intentSchedulers:
			err = json.Unmarshal(r.Data, &what.schedulers)
		case r.Type == phase.RecordIntent && r.Name == intentLimits:
			err = json.Unmarshal(r.Data, &what.limits)
		case r.Type == phase.RecordDone && r.Step == stepRelease, r.Type == phase.RecordUndone && r.Step == stepHold:
			what, held = paused{}, false
		}
		if err != nil {
			return paused{}, false
		}
	}
	return what, held
}
