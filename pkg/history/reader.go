package history

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/report"
)

// maxReads is how many objects are read at the same time: S3 serves 5,500 reads per second and prefix, and an answer
// takes some 20 ms.
const maxReads = 64

// Reader reads the runs of one storage, repeatedly, and caches what has not changed. It is safe for concurrent use;
// reads run one at a time.
type Reader struct {
	store objstore.Store

	mu    sync.Mutex
	runs  map[string]Run // by key
	small *smallObjects  // claims and seals
}

// Open makes a reader with an empty cache.
func Open(store objstore.Store) *Reader {
	return &Reader{store: store, runs: map[string]Run{}, small: newSmallObjects(store)}
}

// State is the content of a storage when it was read.
type State struct {
	// Backups are all backups, the oldest first, as catalog.List returns them.
	Backups []catalog.Entry
	// Runs are the runs with a report, the oldest first.
	Runs []Run
	// Read is how many objects were read, Known how many were cached.
	Read, Known int
}

// Runs returns the runs that ended at or after since (zero: all), the oldest first. A report that cannot be decoded is
// in the list with its Problem; a storage that cannot be read is an error, but what was read is cached even then.
func (r *Reader) Runs(ctx context.Context, since time.Time) (*State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, objects, since)
}

// current lists the storage and drops what was deleted from the cache.
func (r *Reader) current(ctx context.Context) ([]objstore.Object, error) {
	objects, err := r.list(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read runs", r.store.URL())
	}
	present := make(map[string]bool, len(objects))
	for _, o := range objects {
		present[o.Key] = true
	}
	for key := range r.runs {
		if !present[key] {
			delete(r.runs, key)
		}
	}
	return objects, nil
}

// All returns the runs that ended at or after since, and the list of all backups.
func (r *Reader) All(ctx context.Context, since time.Time) (*State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	state, err := r.read(ctx, objects, since)
	if err != nil {
		return nil, err
	}
	known := r.small.begin(objects)
	if state.Backups, err = (catalog.Catalog{Store: r.small}).List(ctx); err != nil {
		return nil, err
	}
	read := r.small.reads()
	state.Read, state.Known = state.Read+read, state.Known+max(known-read, 0)
	return state, nil
}

// Known returns the cached runs, the oldest first, and reads nothing.
func (r *Reader) Known() []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inOrder(slices.Collect(maps.Values(r.runs)))
}

// Report returns a run's whole report: Key of Run. It is not cached.
func (r *Reader) Report(ctx context.Context, key string) (*report.Report, error) {
	body, _, err := r.store.Get(ctx, key)
	if err != nil {
		return nil, failure.Annotate(err, "read report", key)
	}
	full, err := report.Decode(bytes.NewReader(body))
	return full, failure.Annotate(err, "read report", key)
}

// list returns the objects of all backups and all reports.
func (r *Reader) list(ctx context.Context) ([]objstore.Object, error) {
	found := make([][]objstore.Object, 2)
	err := parallel.Each(ctx, 0, []string{manifest.BackupsPrefix, manifest.ReportsPrefix},
		func(ctx context.Context, i int, prefix string) (err error) {
			found[i], err = r.store.List(ctx, prefix)
			return err
		})
	return slices.Concat(found...), err
}

// read updates the summaries from the objects.
func (r *Reader) read(ctx context.Context, objects []objstore.Object, since time.Time) (*State, error) {
	state, present := &State{}, map[string]bool{}
	var missing []objstore.Object
	for _, o := range objects {
		if _, _, ok := manifest.SplitReportKey(o.Key); !ok {
			continue
		}
		present[o.Key] = true
		if known, ok := r.runs[o.Key]; ok && known.Version == o.Version {
			state.Known++
		} else if !o.Modified.Before(since) { // it was written after the run ended
			missing = append(missing, o)
		}
	}
	found := make([]*Run, len(missing))
	err := parallel.Each(ctx, maxReads, missing, func(ctx context.Context, i int, o objstore.Object) (err error) {
		found[i], err = r.summary(ctx, o)
		return err
	})
	for _, run := range found {
		if run != nil {
			r.runs[run.Key] = *run
			state.Read++
		}
	}
	if err != nil {
		return nil, failure.Annotate(err, "read runs", r.store.URL())
	}
	for key := range present {
		run, known := r.runs[key]
		if known && (run.Problem != "" || !run.Finished.Before(since)) {
			state.Runs = append(state.Runs, run)
		}
	}
	state.Runs = inOrder(state.Runs)
	return state, nil
}

// summary reads one report; nil if it was deleted meanwhile.
func (r *Reader) summary(ctx context.Context, o objstore.Object) (*Run, error) {
	body, version, err := r.store.Get(ctx, o.Key)
	if failure.Is(err, failure.NotFound) {
		return nil, nil // a backup may be deleted at any time
	}
	if err != nil && !failure.Is(err, failure.Corrupt) {
		return nil, failure.Annotate(err, "read report", o.Key)
	}
	var full *report.Report
	if err == nil {
		full, err = report.Decode(bytes.NewReader(body))
	}
	if err != nil {
		return &Run{Key: o.Key, Version: o.Version, Problem: failure.Line(err.Error())}, nil
	}
	run := Summarize(full)
	run.Key, run.Version = o.Key, version
	return &run, nil
}

// inOrder sorts by age.
func inOrder(runs []Run) []Run {
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Key, b.Key))
	})
	return runs
}
