package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// compactVersion is the format of the object that holds a whole journal. Older versions of tisnap refuse it.
const compactVersion = 2

// compactHead is the first line of that object. The records follow, one per line, in order from number 1.
type compactHead struct {
	Version int           `json:"v"`
	Type    string        `json:"type"`
	Run     cluster.RunID `json:"run"`
	Records int           `json:"records"`
	Sum     string        `json:"sum"` // of all bytes after this line
}

const typeCompacted = "compacted"

// compactRecord is a record without what the head has for all of them.
type compactRecord struct {
	Time    time.Time          `json:"time"`
	Type    phase.RecordType   `json:"type"`
	Step    string             `json:"step,omitempty"`
	Name    string             `json:"name,omitempty"`
	Data    json.RawMessage    `json:"data,omitempty"`
	Error   string             `json:"error,omitempty"`
	Epoch   int64              `json:"epoch,omitempty"`
	Seconds float64            `json:"seconds,omitempty"`
	Parts   []phase.Part       `json:"parts,omitempty"`
	Stores  []phase.StoreParts `json:"stores,omitempty"`
}

// Compact puts an ended run's journal into one object, and deletes its records except the first, which describes the
// run. It returns how many objects it deleted: none for a journal without an end, or with two records. It may be called
// at any time, concurrently, and again after an interruption: the whole journal is written once and read back before
// the first record is deleted, and readers find it whenever a record is gone.
func (j *StoreJournal) Compact(ctx context.Context) (int, error) {
	records, err := j.Records(ctx)
	if err != nil || len(records) <= 2 || records[len(records)-1].Type != phase.RecordEnd {
		return 0, err
	}
	if _, err := j.putTogether(ctx, records); err != nil {
		return 0, err
	}
	return j.deleteRecords(ctx)
}

// putTogether writes all records into one object, reads it back, and returns its version.
func (j *StoreJournal) putTogether(ctx context.Context, records []phase.Record) (objstore.Version, error) {
	body, err := encodeWhole(records)
	if err != nil {
		return "", failure.Wrap(err, failure.Unknown, "encode journal", j.prefix)
	}
	_, err = j.store.Create(ctx, j.key(0), body)
	if err != nil && !failure.Is(err, failure.Conflict) {
		return "", failure.Annotate(err, "write compacted journal", j.key(0))
	}
	stored, version, err := j.store.Get(ctx, j.key(0)) // another process may have written it: of the same records
	if err != nil {
		return "", failure.Annotate(err, "read compacted journal back", j.key(0))
	}
	if !bytes.Equal(stored, body) {
		return "", failure.New(failure.Corrupt, "compact journal", j.key(0),
			"it does not hold the %d records of this journal", len(records))
	}
	return version, nil
}

// deleteRecords deletes all records but the first.
func (j *StoreJournal) deleteRecords(ctx context.Context) (int, error) {
	objects, err := j.store.List(ctx, j.prefix)
	if err != nil {
		return 0, failure.Annotate(err, "list journal", j.prefix)
	}
	objects = slices.DeleteFunc(objects, func(o objstore.Object) bool { return o.Key == j.key(0) || o.Key == j.key(1) })
	err = parallel.Each(ctx, readers, objects, func(ctx context.Context, _ int, o objstore.Object) error {
		return failure.Annotate(j.store.Delete(ctx, o.Key), "delete journal record", o.Key)
	})
	return len(objects), err
}

// whole reads the object of Compact; nil if there is none.
func (j *StoreJournal) whole(ctx context.Context) ([]phase.Record, error) {
	body, _, err := j.store.Get(ctx, j.key(0))
	if failure.Is(err, failure.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, failure.Annotate(err, "read compacted journal", j.key(0))
	}
	records, err := decodeWhole(body)
	return records, failure.Annotate(err, "read compacted journal", j.key(0))
}

func encodeWhole(records []phase.Record) ([]byte, error) {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range records {
		if err := enc.Encode(
			compactRecord{
				r.Time, r.Type, r.Step, r.Name, r.Data, r.Error, r.Epoch, r.Seconds, r.Parts, r.Stores,
			}); err != nil {
			return nil, err
		}
	}
	head, err := json.Marshal(
		compactHead{compactVersion, typeCompacted, records[0].Run, len(records), sum(lines.Bytes())})
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), lines.Bytes()), nil
}

func decodeWhole(body []byte) ([]phase.Record, error) {
	first, lines, _ := bytes.Cut(body, []byte("\n"))
	var head compactHead
	if err := json.Unmarshal(first, &head); err != nil || head.Type != typeCompacted {
		return nil, failure.New(failure.Corrupt, "decode journal", "", "it does not begin with what it holds")
	}
	if head.Version > compactVersion {
		return nil, failure.New(failure.Usage, "decode journal", "",
			"it has format %d, and %d is the newest that is known", head.Version, compactVersion).
			WithHint("use the version of tisnap that wrote it")
	}
	if sum(lines) != head.Sum {
		return nil, failure.New(failure.Corrupt, "decode journal", "", "its checksum is not that of its bytes")
	}
	var records []phase.Record
	for line := range strings.Lines(string(lines)) {
		var c compactRecord
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "decode journal", "")
		}
		r := phase.Record{
			Seq: len(records) + 1, Run: head.Run,
			Time: c.Time, Type: c.Type, Step: c.Step, Name: c.Name, Data: c.Data, Error: c.Error, Epoch: c.Epoch,
			Seconds: c.Seconds,
			Parts:   c.Parts, Stores: c.Stores,
		}
		r.Version = format(&r)
		records = append(records, r)
	}
	if len(records) != head.Records {
		return nil, failure.New(failure.Corrupt, "decode journal", "", "it has %d records instead of %d", len(records),
			head.Records)
	}
	return records, nil
}

// notCompacted is a Conflict if the journal was compacted: the run has ended then, and the key of a record that was
// deleted is free again. A record that was written a moment before this one is proof enough that it was not.
func (j *StoreJournal) notCompacted(ctx context.Context, r phase.Record) error {
	j.mu.Lock()
	last := j.appended
	j.mu.Unlock()
	if !wait.Younger(last, proofAge, time.Now()) {
		_, _, err := j.store.Get(ctx, j.key(0))
		switch {
		case err == nil:
			ended := failure.New(failure.Conflict, "write journal record", j.key(r.Seq),
				"the run has ended, and its journal was compacted")
			return failure.Join(ended, j.store.Delete(ctx, j.key(r.Seq)))
		case !failure.Is(err, failure.NotFound):
			return failure.Annotate(err, "check journal", j.prefix)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.appended = time.Now()
	return nil
}

// proofAge is far below the time in which a run can be taken over, end, and have its journal compacted.
const proofAge = 2 * time.Second
