package runs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Found is a run of a listing, by the objects of its journal. Times are by the storage's clock.
type Found struct {
	ID cluster.RunID
	// Modified is when the youngest of the objects was written.
	Modified time.Time
	// Recorded is when the youngest record was; zero of a journal of which only the object of Compact is left, which is
	// as young as its compaction.
	Recorded time.Time
	Objects  int
}

// All lists the runs in the storage, in order of their ids, and reads no journal.
func All(ctx context.Context, store objstore.Store) ([]Found, error) {
	objects, err := store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list runs", store.URL())
	}
	return byRun(objects), nil
}

// byRun lists the runs of journals' objects, in order of their ids.
func byRun(objects []objstore.Object) []Found {
	var out []Found
	for _, o := range objects {
		id, seq, ok := manifest.SplitJournalKey(o.Key)
		if !ok {
			continue
		}
		if n := len(out); n == 0 || out[n-1].ID != id { // keys are in order
			out = append(out, Found{ID: id})
		}
		run := &out[len(out)-1]
		run.Objects++
		if o.Modified.After(run.Modified) {
			run.Modified = o.Modified
		}
		if seq > 0 && o.Modified.After(run.Recorded) {
			run.Recorded = o.Modified
		}
	}
	return out
}
