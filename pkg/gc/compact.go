package gc

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// maxCompactions bounds the journals that are compacted at a time: each has many requests of its own.
const maxCompactions = 2

// compactJournals puts the journals of runs that have ended before a time, and are of the clusters asked for, into one object
// each, and returns how many. A damaged journal stays as it is.
func compactJournals(ctx context.Context, d Deps, o Options, before time.Time) (int, error) {
	objects, err := d.Store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return 0, failure.Annotate(err, "list runs", d.Store.URL())
	}
	records, young := map[cluster.RunID]int{}, map[cluster.RunID]bool{}
	for _, o := range objects {
		id, seq, ok := manifest.SplitJournalKey(o.Key)
		if ok {
			records[id]++
			young[id] = young[id] || o.Modified.After(before) && seq > 0
		}
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(records)), func(id cluster.RunID) bool {
		return young[id] || records[id] <= 2 // a compacted one has two objects
	})
	var done atomic.Int64
	err = parallel.Each(ctx, maxCompactions, ids, func(ctx context.Context, _ int, id cluster.RunID) error {
		one := phase.NewStoreJournal(d.Store, manifest.JournalPrefix(id))
		removed := 0
		asked, err := o.asksOf(ctx, one, id)
		if asked {
			removed, err = one.Compact(ctx)
		}
		if failure.Is(err, failure.Corrupt) {
			return nil
		}
		if removed > 0 {
			done.Add(1)
		}
		return failure.Annotate(err, "compact journal", string(id))
	})
	return int(done.Load()), err
}
