package journal

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Remove deletes an ended run's journal; an unfinished run's is a Conflict and stays. It first compacts the journal
// into one object (Compact), which is deleted last: wherever this is interrupted, readers find the whole journal or
// none, never one that looks like a dead run's. It is safe to repeat and to call concurrently. Each object is deleted
// in the version that was seen.
func (j *StoreJournal) Remove(ctx context.Context) error {
	records, err := j.Records(ctx)
	switch {
	case err != nil:
		return err
	case len(records) == 0:
		return nil // another process was faster
	case records[len(records)-1].Type != phase.RecordEnd:
		return failure.New(failure.Conflict, "remove journal", j.prefix, "its run has not ended")
	}
	version, err := j.putTogether(ctx, records)
	if err != nil {
		return err
	}
	objects, err := j.store.List(ctx, j.prefix)
	if err != nil {
		return failure.Annotate(err, "list journal", j.prefix)
	}
	objects = slices.DeleteFunc(objects, func(o objstore.Object) bool { return o.Key == j.key(0) })
	err = parallel.Each(ctx, readers, objects, func(ctx context.Context, _ int, o objstore.Object) error {
		return failure.Annotate(j.store.DeleteVersion(ctx, o.Key, o.Version), "delete journal record", o.Key)
	})
	if err != nil {
		return err
	}
	return failure.Annotate(j.store.DeleteVersion(ctx, j.key(0), version), "delete compacted journal", j.key(0))
}
