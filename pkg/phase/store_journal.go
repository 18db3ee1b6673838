package phase

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// StoreJournal keeps a journal in object storage, one object a record, each created conditionally: two
// writers of one run exclude each other.
type StoreJournal struct {
	store  objstore.Store
	prefix string
}

// NewStoreJournal keeps the journal below prefix, which ends in '/'.
func NewStoreJournal(store objstore.Store, prefix string) *StoreJournal {
	return &StoreJournal{store: store, prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

func (j *StoreJournal) key(seq int) string { return fmt.Sprintf("%s%06d.json", j.prefix, seq) }

// Append writes the record as a new object. It succeeds if exactly this record is there: an earlier try whose answer was
// lost has written it.
func (j *StoreJournal) Append(ctx context.Context, r Record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "encode journal record", r.Step)
	}
	_, err = j.store.Create(ctx, j.key(r.Seq), body)
	if failure.Is(err, failure.Conflict) {
		if stored, _, readErr := j.store.Get(ctx, j.key(r.Seq)); readErr == nil && bytes.Equal(stored, body) {
			return nil
		}
	}
	return failure.Annotate(err, "write journal record", j.key(r.Seq))
}

// NoJournal keeps nothing: for dry runs.
type NoJournal struct{}

// Append drops the record.
func (NoJournal) Append(context.Context, Record) error { return nil }

// Records is always empty.
func (NoJournal) Records(context.Context) ([]Record, error) { return nil, nil }

// Records reads all records; a gap or a damaged one is Corrupt.
func (j *StoreJournal) Records(ctx context.Context) ([]Record, error) {
	objects, err := j.store.List(ctx, j.prefix)
	if err != nil {
		return nil, failure.Annotate(err, "list journal", j.prefix)
	}
	records := make([]Record, 0, len(objects))
	for i, o := range objects {
		body, _, err := j.store.Get(ctx, o.Key)
		if err != nil {
			return nil, failure.Annotate(err, "read journal record", o.Key)
		}
		var r Record
		dec := json.NewDecoder(bytes.NewReader(body))
		if err := dec.Decode(&r); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "decode journal record", o.Key)
		}
		if r.Seq != i+1 || o.Key != j.key(r.Seq) {
			return nil, failure.New(failure.Corrupt, "read journal", o.Key, "record %d is missing", i+1)
		}
		records = append(records, r)
	}
	return records, nil
}
