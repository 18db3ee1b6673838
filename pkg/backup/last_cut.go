package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
)

// lastCut is when another run of the cluster last dealt with EC2's set of snapshots, by its journal, if that was after since;
// else zero. EC2 counts a snapshot that was deleted, and shows it to nobody.
func lastCut(ctx context.Context, store objstore.Store, name cluster.Name, self cluster.RunID, since time.Time) (time.Time, error) {
	objects, err := store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return time.Time{}, failure.Annotate(err, "list runs", name.String())
	}
	var last time.Time
	read := map[cluster.RunID]bool{self: true}
	for _, o := range objects {
		run, _, ok := manifest.SplitJournalKey(o.Key)
		// The storage's clock may differ from that of the run that wrote.
		if !ok || read[run] || o.Modified.Before(since.Add(-maxClockDifference)) {
			continue
		}
		read[run] = true
		records, err := phase.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		if at := cutIn(records, name); at.After(last) {
			last = at
		}
	}
	if last.Before(since) {
		return time.Time{}, nil
	}
	return last, nil
}

// cutIn is the time of the last record of a journal's cut; zero if the run is of another cluster, or has asked for no
// snapshots.
func cutIn(records []phase.Record, name cluster.Name) (last time.Time) {
	if len(records) == 0 {
		return last
	}
	if about, err := journal.ReadAbout(records[0].Run, records[0]); err != nil || about.Cluster != name {
		return last
	}
	step := ""
	for _, r := range records {
		switch {
		case r.Type == phase.RecordIntent && r.Name == journal.IntentCreateSnapshots:
			step, last = r.Step, r.Time
		case step != "" && r.Step == step && (r.Type == phase.RecordDone || r.Type == phase.RecordFailed):
			last = r.Time
		}
	}
	return last
}
