package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// lastCut is when another run of the cluster last dealt with EC2's set of snapshots, by its journal, if that was after
// since; else zero. EC2 counts a snapshot that was deleted, and does not show it any more.
func lastCut(
	ctx context.Context, store objstore.Store, name cluster.Name, self cluster.RunID, since time.Time,
) (time.Time, error) {
	journals, err := recentJournals(ctx, store, name, self, since)
	var last time.Time
	for _, f := range journals {
		if n := len(f.Cuts); n > 0 { // they are in order
			last = later(last, f.Cuts[n-1].Ended)
		}
	}
	if err != nil || last.Before(since) {
		return time.Time{}, err
	}
	return last, nil
}

// Bounds of what is read of other runs' journals: of a storage that holds those of years, only runs are listed that
// began within maxRun before the time that is asked for, and in a time that is short beside the step's. What is missed
// costs a wait within the hold, and not the backup.
const (
	maxRun      = 24 * time.Hour
	recentLimit = 15 * time.Second
)

// recentJournals reads those of the other runs of a cluster that wrote something after since. What cannot be read as
// a journal is left out.
func recentJournals(
	ctx context.Context, store objstore.Store, name cluster.Name, self cluster.RunID, since time.Time,
) (map[cluster.RunID]journal.BackupFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, recentLimit)
	defer cancel()
	found, err := runs.Since(ctx, store, since.Add(-maxRun))
	if err != nil {
		return nil, err
	}
	journals := map[cluster.RunID]journal.BackupFacts{}
	for _, f := range found {
		run := f.ID
		// The storage's clock may differ from that of the run that wrote.
		if run == self || f.Modified.Before(since.Add(-maxClockDifference)) {
			continue
		}
		records, err := journal.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			continue
		}
		if about, err := journal.ReadAbout(records[0].Run, records[0]); err == nil && about.Cluster == name {
			journals[run] = journal.ReadFacts(records).Backup
		}
	}
	return journals, nil
}
