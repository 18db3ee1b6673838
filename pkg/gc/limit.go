package gc

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// Limited reports whether only part of the leftovers is requested.
func (o Options) Limited() bool { return o.Only != "" || len(o.Of) > 0 }

// limit removes from a report what the options do not request. An item's cluster is that of its run's journal, so a
// backup's objects and snapshots stay together whatever the snapshots' tags.
func (o Options) limit(r *Report, w *world) {
	if !o.Limited() {
		return
	}
	r.Elsewhere = 0
	r.Items = slices.DeleteFunc(r.Items, func(i Item) bool {
		of := i.Cluster
		if run := w.runs[i.Run]; run != nil {
			of = run.Cluster.String()
		}
		return o.Only != "" && i.Run != o.Only || !o.asks(of)
	})
	r.Missing = slices.DeleteFunc(r.Missing, func(m Missing) bool {
		return o.Only != "" || !o.asks(w.backups[m.Backup].Cluster.String())
	})
}

// asksOf reports whether a journal's run belongs to the requested clusters.
func (o Options) asksOf(ctx context.Context, of *journal.StoreJournal, id cluster.RunID) (bool, error) {
	if len(o.Of) == 0 {
		return true, nil
	}
	first, err := of.First(ctx)
	if failure.Is(err, failure.NotFound) { // its removal was interrupted; the next one completes it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	about, err := journal.ReadAbout(id, *first)
	return err == nil && o.asks(about.Cluster.String()), err
}

func (o Options) asks(of string) bool {
	return len(o.Of) == 0 || slices.ContainsFunc(o.Of, func(c cluster.Name) bool { return c.String() == of })
}
