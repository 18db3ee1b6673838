package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// StoreJournal keeps a journal in object storage, one conditionally created object per record, so that two writers of
// one run exclude each other. An ended run's journal can be compacted into one object (Compact).
type StoreJournal struct {
	store  objstore.Store
	prefix string

	mu       sync.Mutex
	appended time.Time // when the last record was written that is known to stand
}

// NewStoreJournal keeps the journal below prefix, which ends in '/'.
func NewStoreJournal(store objstore.Store, prefix string) *StoreJournal {
	return &StoreJournal{store: store, prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

func (j *StoreJournal) key(seq int) string { return fmt.Sprintf("%s%06d.json", j.prefix, seq) }

// Append writes the record as a new object. It succeeds if exactly this record is there: an earlier try whose answer
// was lost has written it.
func (j *StoreJournal) Append(ctx context.Context, r phase.Record) error {
	body, err := seal(r)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "encode journal record", r.Step)
	}
	_, err = j.store.Create(ctx, j.key(r.Seq), body)
	if failure.Is(err, failure.Conflict) {
		if stored, _, readErr := j.store.Get(ctx, j.key(r.Seq)); readErr == nil && bytes.Equal(stored, body) {
			err = nil
		}
	}
	if err == nil {
		return j.notCompacted(ctx, r)
	}
	return failure.Annotate(err, "write journal record", j.key(r.Seq))
}

// readers bounds the concurrent reads of records: a restore of 300 stores has a thousand.
const readers = 16

// Records reads all records; a gap or a damaged one is Corrupt. What a listing does not show yet is read all the same,
// and so is a journal that is compacted meanwhile.
func (j *StoreJournal) Records(ctx context.Context) ([]phase.Record, error) {
	if whole, err := j.whole(ctx); whole != nil || err != nil {
		return whole, err
	}
	records, err := j.separate(ctx)
	if whole, wholeErr := j.whole(ctx); whole != nil || wholeErr != nil {
		return whole, wholeErr // records may have been deleted while they were read
	}
	return records, err
}

// First reads the first record, which stays beside the object of Compact. It is NotFound if there is none.
func (j *StoreJournal) First(ctx context.Context) (*phase.Record, error) {
	return j.read(ctx, j.key(1))
}

// separate reads the records of a journal that is not compacted.
func (j *StoreJournal) separate(ctx context.Context) ([]phase.Record, error) {
	objects, err := j.store.List(ctx, j.prefix)
	if err != nil {
		return nil, failure.Annotate(err, "list journal", j.prefix)
	}
	objects = slices.DeleteFunc(objects, func(o objstore.Object) bool { return o.Key == j.key(0) })
	listed := make([]*phase.Record, len(objects))
	last := 0
	err = parallel.Each(ctx, readers, objects, func(ctx context.Context, i int, o objstore.Object) error {
		r, err := j.read(ctx, o.Key)
		listed[i] = r
		return err
	})
	if err != nil {
		return nil, err
	}
	bySeq := map[int]*phase.Record{}
	for i, r := range listed {
		if objects[i].Key != j.key(r.Seq) {
			return nil, failure.New(failure.Corrupt, "read journal", objects[i].Key, "it holds record %d", r.Seq)
		}
		bySeq[r.Seq], last = r, max(last, r.Seq)
	}
	return j.inOrder(ctx, bySeq, last)
}

// inOrder asks for what is not listed, by its key: until there is none, as a list may be older than the last records.
func (j *StoreJournal) inOrder(ctx context.Context, bySeq map[int]*phase.Record, last int) ([]phase.Record, error) {
	var records []phase.Record
	for seq, epoch := 1, int64(0); ; seq++ {
		r := bySeq[seq]
		if r == nil {
			var err error
			switch r, err = j.read(ctx, j.key(seq)); {
			case failure.Is(err, failure.NotFound) && seq < last:
				return nil, failure.New(failure.Corrupt, "read journal", j.key(seq), "record %d is missing", seq)
			case failure.Is(err, failure.NotFound):
				return records, nil
			case err != nil:
				return nil, err
			}
		}
		if r.Epoch < epoch {
			return nil, failure.New(failure.Corrupt, "read journal", j.key(seq), "its epoch is %d, and %d came before",
				r.Epoch, epoch)
		}
		epoch = r.Epoch
		records = append(records, *r)
	}
}

func (j *StoreJournal) read(ctx context.Context, key string) (*phase.Record, error) {
	body, _, err := j.store.Get(ctx, key)
	if err != nil {
		return nil, failure.Annotate(err, "read journal record", key)
	}
	r := new(phase.Record)
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(r); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "decode journal record", key)
	}
	return r, failure.Annotate(check(r), "read journal record", key)
}

// The formats that are written: a record with parts has a newer one, as versions that do not know them would take its
// checksum for one of other bytes. A reader refuses what is newer.
const (
	plainVersion  = 1
	recordVersion = 2
)

// format is the version that the record is written in.
func format(r *phase.Record) int {
	if len(r.Parts)+len(r.Stores) > 0 {
		return recordVersion
	}
	return plainVersion
}

// seal is the record's bytes with its version and checksum.
func seal(r phase.Record) ([]byte, error) {
	r.Version, r.Sum = format(&r), ""
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	r.Sum = sum(body)
	return json.Marshal(r)
}

// check is Corrupt for a record that was changed after it was written, and Usage for one of a newer format.
func check(r *phase.Record) error {
	if r.Version > recordVersion {
		return failure.New(failure.Usage, "check record", "", "it has format %d, and %d is the newest that is known",
			r.Version, recordVersion).
			WithHint("use the version of tisnap that wrote it")
	}
	if r.Version == 0 {
		return nil
	}
	plain := *r
	plain.Sum = ""
	body, err := json.Marshal(plain)
	if err != nil || sum(body) != r.Sum {
		return failure.New(failure.Corrupt, "check record", "", "its checksum is not that of its bytes")
	}
	return nil
}

func sum(body []byte) string {
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:8])
}
