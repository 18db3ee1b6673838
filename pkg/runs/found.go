package runs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Found is a listed run, by its journal's objects. Times are the storage's.
type Found struct {
	ID cluster.RunID
	// Modified is when the newest object was written.
	Modified time.Time
	// Recorded is when the newest record was written; zero for a journal that is only Compact's object, which is as new
	// as its compaction.
	Recorded time.Time
	Objects  int
}

// All lists the storage's runs by id, without reading a journal.
func All(ctx context.Context, store objstore.Store) ([]Found, error) {
	objects, err := store.List(ctx, manifest.RunsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list runs", store.URL())
	}
	return byRun(objects), nil
}

// byRun groups the objects of journals by run, in order of ids.
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
