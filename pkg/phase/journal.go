package phase

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// RecordType is the kind of a journal record.
type RecordType string

// The records of a run.
const (
	RecordRun        RecordType = "run"    // first record: what the run is
	RecordBegin      RecordType = "begin"  // before a step's first effect
	RecordIntent     RecordType = "intent" // before one effect within a step
	RecordResult     RecordType = "result" // after one effect within a step
	RecordDone       RecordType = "done"   // the step is done; Data is its State
	RecordFailed     RecordType = "failed"
	RecordUndo       RecordType = "undo"   // before a step's undo
	RecordUndone     RecordType = "undone" // the step's effect is gone
	RecordUndoFail   RecordType = "undo-failed"
	RecordRetryGroup RecordType = "again"   // a group of steps is undone and begins from scratch; Data is their names
	RecordResumed    RecordType = "resumed" // another process continues the run from here on
	RecordEnd        RecordType = "end"     // last record; Error is empty for a run that succeeded
)

// Record is one line of a journal.
type Record struct {
	Seq   int             `json:"seq"`
	Time  time.Time       `json:"time"`
	Run   cluster.RunID   `json:"run"`
	Type  RecordType      `json:"type"`
	Step  string          `json:"step,omitempty"`
	Name  string          `json:"name,omitempty"` // of an intent or result
	Data  json.RawMessage `json:"data,omitempty"`
	Error string          `json:"error,omitempty"`
	// Epoch is the run lock's epoch when the record was written; 0 before the lock is held.
	Epoch int64 `json:"epoch,omitempty"`
	// Seconds is how long the step took, by the monotonic clock of its process; of RecordDone and RecordFailed.
	Seconds float64 `json:"seconds,omitempty"`
	// Parts are the step's parts, and Stores those per store that no earlier record has; of RecordDone.
	Parts  []Part       `json:"parts,omitempty"`
	Stores []StoreParts `json:"stores,omitempty"`
	// Version is the format version; 0 for records without one.
	Version int `json:"v,omitempty"`
	// Sum is the record's checksum, computed without this field; "" in version 0.
	Sum string `json:"sum,omitempty"`
}

// Journal is a run's write-ahead log. A record is durable once Append has returned.
type Journal interface {
	// Append writes the record at its sequence number. If another writer has taken that number, the error is a
	// Conflict: another process executes this run, and the caller must stop.
	Append(ctx context.Context, r Record) error
	// Records returns all records in order.
	Records(ctx context.Context) ([]Record, error)
}

// NoJournal keeps nothing: for dry runs.
type NoJournal struct{}

// Append drops the record.
func (NoJournal) Append(context.Context, Record) error { return nil }

// Records returns nothing.
func (NoJournal) Records(context.Context) ([]Record, error) { return nil, nil }
