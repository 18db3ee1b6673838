package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runs"
)

// journalAge is how old a journal may be to be read: pauses expire long before.
const journalAge = 24 * time.Hour

// holding is what one run has paused in PD and not released.
type holding struct {
	journal.Paused
	run     cluster.RunID
	early   []earlyapply.Setting // what stores were set to, that it turned early apply off on
	until   time.Time            // when all that it holds on stores has run out
	unclear bool                 // the journal has something that cannot be read
}

// holdings lists what runs of the cluster have paused in PD and not released, by their journals.
func holdings(ctx context.Context, store objstore.Store, p hold.PD, name cluster.Name) ([]holding, error) {
	held, _, err := holdingsUntil(ctx, store, p, name)
	return held, err
}

// holdingsUntil lists the holdings, and returns when all that their runs hold on stores has run out: before now if
// there are none, and zero if that is unknown: a journal cannot be read, or the storage has no run at all and may be
// the wrong one. Runs that are known to be of another cluster of the same name are left out.
func holdingsUntil(
	ctx context.Context, store objstore.Store, p hold.PD, name cluster.Name,
) (held []holding, until time.Time, err error) {
	id, err := p.ClusterID(ctx)
	if err != nil {
		return nil, time.Time{}, failure.Annotate(err, "read cluster id", name.String())
	}
	found, err := runs.All(ctx, store)
	if err != nil {
		return nil, time.Time{}, err
	}
	until, unclear := time.Unix(0, 0), len(found) == 0
	for _, f := range found {
		if time.Since(f.Modified) >= journalAge {
			continue
		}
		records, err := journal.NewStoreJournal(store, manifest.JournalPrefix(f.ID)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			unclear = true
			continue // it names nothing that can be trusted: what stays paused is shown
		}
		if err != nil {
			return nil, time.Time{}, err
		}
		h, holds := pausedBy(records, name, id)
		unclear = unclear || h.unclear
		if holds || len(h.early) > 0 {
			h.run = f.ID
			held = append(held, h)
			until = later(until, h.until)
		}
	}
	if unclear {
		until = time.Time{}
	}
	return held, until, nil
}

// Holds reports whether, by its journal, a run holds its cluster and has not released it. What it holds
// expires by itself if the run is dead.
func Holds(records []phase.Record) bool {
	if len(records) == 0 {
		return false
	}
	about, err := journal.ReadAbout(records[0].Run, records[0])
	if err != nil {
		return false
	}
	_, held := pausedBy(records, about.Cluster, about.ClusterID)
	return held
}

// pausedBy reads one journal: held is false if the run is of another cluster, never held it, or released it.
func pausedBy(records []phase.Record, name cluster.Name, id uint64) (what holding, held bool) {
	if len(records) == 0 {
		return holding{}, false
	}
	about, err := journal.ReadAbout(records[0].Run, records[0])
	if err != nil || about.Cluster != name || about.ClusterID != 0 && about.ClusterID != id {
		return holding{unclear: err != nil}, false
	}
	f := journal.ReadFacts(records).Backup
	if f.Unclear {
		return holding{unclear: true}, false
	}
	return holding{
		Paused: f.Pausing, early: f.EarlyApply, until: heldUntil(f.Holds),
	}, f.Held
}
