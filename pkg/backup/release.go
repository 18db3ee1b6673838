package backup

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
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
	if left.Status, err = look(ctx, p, held); err != nil {
		return nil, failure.Annotate(err, "release", o.Cluster.String())
	}
	return left, nil
}

// Status shows what is paused in PD, and by which runs as far as the journals in the storage tell. A nil store
// tells nothing. Nothing is changed.
func Status(ctx context.Context, store objstore.Store, p hold.PD, name cluster.Name) (*hold.Status, error) {
	var held []holding
	if store != nil {
		var err error
		if held, err = holdings(ctx, store, name); err != nil {
			return nil, err
		}
	}
	return look(ctx, p, held)
}

func look(ctx context.Context, p hold.PD, held []holding) (*hold.Status, error) {
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

// holding is what one run has paused in PD and not let go.
type holding struct {
	run                cluster.RunID
	schedulers, limits []string
}

// holdings lists what runs of the cluster have paused in PD and not let go, by their journals.
func holdings(ctx context.Context, store objstore.Store, name cluster.Name) ([]holding, error) {
	objects, err := store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list runs", name.String())
	}
	var runs []cluster.RunID
	for _, o := range objects {
		run, _, ok := manifest.SplitJournalKey(o.Key)
		if ok && time.Since(o.Modified) < journalAge && !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	var held []holding
	for _, run := range runs {
		records, err := phase.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			continue // it names nothing that can be trusted: what stays paused is shown
		}
		if err != nil {
			return nil, err
		}
		if h, holds := pausedBy(records, name); holds {
			h.run = run
			held = append(held, h)
		}
	}
	return held, nil
}

// pausedBy reads one journal: held is false if the run is of another cluster, never held it, or let it go.
func pausedBy(records []phase.Record, name cluster.Name) (what holding, held bool) {
	if len(records) == 0 {
		return holding{}, false
	}
	if about, err := journal.ReadAbout(records[0].Run, records[0]); err != nil || about.Cluster != name {
		return holding{}, false
	}
	for _, r := range records {
		var err error
		switch {
		case r.Type == phase.RecordBegin && r.Step == journal.StepHold:
			held = true
		case r.Type == phase.RecordIntent && r.Name == journal.IntentSchedulers:
			err = json.Unmarshal(r.Data, &what.schedulers)
		case r.Type == phase.RecordIntent && r.Name == journal.IntentLimits:
			err = json.Unmarshal(r.Data, &what.limits)
		case r.Type == phase.RecordDone && r.Step == journal.StepRelease, r.Type == phase.RecordUndone && r.Step == journal.StepHold:
			what, held = holding{}, false
		}
		if err != nil {
			return holding{}, false
		}
	}
	return what, held
}
