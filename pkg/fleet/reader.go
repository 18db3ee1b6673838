package fleet

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Reader reads the state of one storage, repeatedly, and each version of an object once. It is safe for concurrent use.
type Reader struct {
	// Mark, if set, gets the backups first, to mark those that it knows to be broken.
	Mark func([]catalog.Entry)

	store    objstore.Store
	history  *history.Reader
	journals *journals
}

// Open makes a reader that reads reports and backups through that history.
func Open(store objstore.Store, h *history.Reader) *Reader {
	return &Reader{store: store, history: h, journals: newJournals(store)}
}

// Read reads the storage. What cannot be decoded is in the state's Unreadable; a storage that cannot be read is an
// error.
func (r *Reader) Read(ctx context.Context, now time.Time) (*State, error) {
	read, err := r.history.All(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if r.Mark != nil {
		r.Mark(read.Backups)
	}
	locks, unreadable, err := r.readLocks(ctx, now)
	if err != nil {
		return nil, err
	}
	archives, more, err := r.readArchives(ctx)
	if err != nil {
		return nil, err
	}
	s := newState(now, read, locks, append(unreadable, more...))
	for _, of := range archives {
		s.addArchives(of)
	}
	return s, nil
}

// Follow returns the records of a run's journal so far, up to the first that is missing or cannot be read. The result
// is never modified later.
func (r *Reader) Follow(ctx context.Context, run cluster.RunID) ([]phase.Record, error) {
	records, _, err := r.journals.read(ctx, run)
	return records, err
}
