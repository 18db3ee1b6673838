package gc

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/runs"
)

// maxCompactions bounds concurrent journal compactions: each takes many requests.
const maxCompactions = 2

// compactJournals compacts the journals of runs that ended before a time, limited to the requested clusters, into one
// object each, and returns how many. It leaves damaged journals alone.
func compactJournals(ctx context.Context, d Deps, o Options, before time.Time) (int, error) {
	found, err := runs.All(ctx, d.Store)
	if err != nil {
		return 0, err
	}
	found = slices.DeleteFunc(found, func(f runs.Found) bool {
		return f.Recorded.After(before) || f.Objects <= 2 // a compacted one has two objects
	})
	var done atomic.Int64
	err = parallel.Each(ctx, maxCompactions, found, func(ctx context.Context, _ int, f runs.Found) error {
		one := journal.NewStoreJournal(d.Store, manifest.JournalPrefix(f.ID))
		removed := 0
		asked, err := o.asksOf(ctx, one, f.ID)
		if asked {
			removed, err = one.Compact(ctx)
		}
		if failure.Is(err, failure.Corrupt) {
			return nil
		}
		if removed > 0 {
			done.Add(1)
		}
		return failure.Annotate(err, "compact journal", string(f.ID))
	})
	return int(done.Load()), err
}
