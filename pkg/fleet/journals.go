package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// maxRecords bounds the records kept per journal: a run of a thousand stores writes some five thousand.
const maxRecords = 20_000

// journals follows the journals of current runs: each record is read once. It is safe for concurrent use.
type journals struct {
	store objstore.Store

	mu   sync.Mutex
	runs map[cluster.RunID][]phase.Record
}

func newJournals(store objstore.Store) *journals {
	return &journals{store: store, runs: map[cluster.RunID][]phase.Record{}}
}

// keep drops all runs except those that own these locks.
func (j *journals) keep(open []*Lock) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for run := range j.runs {
		if !slices.ContainsFunc(open, func(l *Lock) bool { return l.Record.Owner.Run == run }) {
			delete(j.runs, run)
		}
	}
}

// read returns the run's records so far, up to the first that is missing or cannot be decoded, and the key of that one
// if it cannot be decoded. The records are never modified later.
func (j *journals) read(
	ctx context.Context, run cluster.RunID,
) (records []phase.Record, unreadable string, err error) {
	j.mu.Lock()
	known := j.runs[run]
	j.mu.Unlock()
	objects, err := j.store.List(ctx, manifest.JournalPrefix(run))
	if err != nil {
		return nil, "", failure.Annotate(err, "list journal", string(run))
	}
	if len(objects) > 0 && objects[0].Key == manifest.JournalKey(run, 0) { // it ended, and is compacted
		records, err = journal.NewStoreJournal(j.store, manifest.JournalPrefix(run)).Records(ctx)
		if failure.Is(err, failure.Corrupt) {
			return nil, objects[0].Key, nil
		}
		return records, "", err
	}
	if len(objects) > maxRecords {
		objects = objects[:maxRecords]
	}
	if len(objects) <= len(known) {
		return known, "", nil
	}
	fresh := objects[len(known):]
	found, bad := make([]*phase.Record, len(fresh)), make([]bool, len(fresh))
	err = parallel.Each(ctx, maxReads, fresh, func(ctx context.Context, i int, o objstore.Object) error {
		body, _, err := j.store.Get(ctx, o.Key)
		if failure.Is(err, failure.NotFound) {
			return nil
		}
		if err != nil && !failure.Is(err, failure.Corrupt) {
			return failure.Annotate(err, "read journal record", o.Key)
		}
		r := new(phase.Record)
		if err == nil && json.Unmarshal(body, r) == nil && manifest.JournalKey(run, r.Seq) == o.Key {
			found[i] = slim(r)
		}
		bad[i] = found[i] == nil
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	records = slices.Clip(known)
	for i, r := range found {
		if bad[i] {
			unreadable = fresh[i].Key
		}
		if r == nil || r.Seq != len(records)+1 {
			break
		}
		records = append(records, *r)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[run] = records
	return records, unreadable, nil
}

// slim drops the data that this package does not read: those of snapshots and volumes are most of a journal.
func slim(r *phase.Record) *phase.Record {
	if r.Type != phase.RecordRun && r.Name != journal.IntentSchedulers && r.Name != journal.IntentLimits &&
		r.Name != journal.ResultExpected {
		r.Data = nil
	}
	r.Error = failure.Line(r.Error)
	return r
}
