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
)

// journalAge is how old a journal may be to be looked at: pauses expire long before.
const journalAge = 24 * time.Hour

// ReleaseOptions are what the user chose for a release.
type ReleaseOptions struct {
	Cluster cluster.Name
	Force   bool // break the lock of a run that is known to be dead
	All     bool // resume all schedulers, whoever paused them
}

// Release lets go what runs that died hold of a cluster. It is Conflict while the lock of a run is alive,
// unless Force breaks it: a run that lives after all then ends.
func Release(ctx context.Context, store objstore.Store, p hold.PD, t tikv.Holder, o ReleaseOptions) (*hold.Released, error) {
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
		if err := runlock.Break(ctx, store, o.Cluster, lock.Epoch); err != nil {
			return nil, err
		}
	}
	names, err := pausedByRuns(ctx, store, o.Cluster)
	if err != nil {
		return nil, err
	}
	return hold.Recover(ctx, hold.Leftover{Cluster: o.Cluster, Schedulers: names, All: o.All}, p, t)
}

// pausedByRuns lists the schedulers that runs of the cluster have paused and not resumed, by their journals.
func pausedByRuns(ctx context.Context, store objstore.Store, name cluster.Name) ([]string, error) {
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
	var names []string
	for _, run := range runs {
		records, err := phase.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			continue // it names no scheduler that can be trusted: what stays paused is shown
		}
		if err != nil {
			return nil, err
		}
		names = append(names, pausedBy(records, name)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// pausedBy reads one journal: nil if the run is of another cluster, never held it, or let it go.
func pausedBy(records []phase.Record, name cluster.Name) []string {
	var of about
	if len(records) == 0 || json.Unmarshal(records[0].Data, &of) != nil || of.Cluster != name {
		return nil
	}
	var names []string
	for _, r := range records {
		switch {
		case r.Type == phase.RecordIntent && r.Name == intentSchedulers:
			if json.Unmarshal(r.Data, &names) != nil {
				return nil
			}
		case r.Type == phase.RecordDone && r.Step == stepRelease, r.Type == phase.RecordUndone && r.Step == stepHold:
			names = nil
		}
	}
	return names
}
