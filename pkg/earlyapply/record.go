package earlyapply

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Recorded is a store on which a run turned early apply off and has not restored it. PD keeps it, so that it can be
// restored at any time after the run was killed, even if the run had no journal.
type Recorded struct {
	Setting
	// StartedAt is when the changed process started: a later one starts with its configured limit.
	StartedAt time.Time     `json:"startedAt"`
	By        cluster.RunID `json:"by"`
	// Since is when it was turned off, by the run's clock; for display.
	Since time.Time `json:"since,omitzero"`
}

const (
	recordName = "early-apply" // of the note in PD
	// recordLimit bounds one read or change of the record, which must not prevent a backup.
	recordLimit = 10 * time.Second
)

// Record stores in PD what the run is about to turn off. It must be there before the stores are set. Idempotent.
func Record(ctx context.Context, n pd.Notes, run cluster.RunID, stores []Store, on []Setting) error {
	now := time.Now().UTC().Truncate(time.Second)
	return editRecord(ctx, n, func(list []Recorded) []Recorded {
		for _, s := range on {
			// it is on: nothing to restore
			list = slices.DeleteFunc(list, func(r Recorded) bool { return r.Store == s.Store })
			list = append(list, Recorded{Setting: s, StartedAt: find(stores, s.Store).StartedAt, By: run, Since: now})
		}
		return list
	})
}

// ReadRecord lists what PD has recorded for these stores, except for stores restarted since. Without a record the list
// is empty.
func ReadRecord(ctx context.Context, n pd.Notes, stores []Store) ([]Recorded, error) {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	list, _, err := readRecord(ctx, n)
	return slices.DeleteFunc(list, func(r Recorded) bool { return r.stale(stores) }), err
}

// Strike removes stores from the record: these, which are restored, and those that were restarted or are gone. The
// record is deleted with its last store. A record that cannot be decoded is kept: Record has refused to add to it.
// Idempotent.
func Strike(ctx context.Context, n pd.Notes, stores []Store, back []Setting) error {
	err := editRecord(ctx, n, func(list []Recorded) []Recorded {
		return slices.DeleteFunc(list, func(r Recorded) bool { return r.stale(stores) || Names(back, r.Store) })
	})
	if failure.Is(err, failure.Corrupt) {
		return nil
	}
	return err
}

// stale reports whether the changed process is gone. If PD does not know when a process started, it counts as the same.
func (r Recorded) stale(stores []Store) bool {
	s := find(stores, r.Store)
	if s.StartedAt.IsZero() || r.StartedAt.IsZero() {
		return s.ID == 0
	}
	return !s.StartedAt.Equal(r.StartedAt)
}

// editRecord changes the record, and retries if another process changed it meanwhile.
func editRecord(ctx context.Context, n pd.Notes, change func([]Recorded) []Recorded) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	var last error
	_ = wait.Until(ctx, wait.Every(interval), func() (done bool, _ error) { // last is the last try's error
		done, last = tryEdit(ctx, n, change)
		return done, last
	})
	return last
}

// tryEdit changes the record once. It is not done if another try may succeed.
func tryEdit(ctx context.Context, n pd.Notes, change func([]Recorded) []Recorded) (done bool, err error) {
	list, revision, err := readRecord(ctx, n)
	if err != nil {
		return true, err
	}
	var body []byte
	if list = change(list); len(list) > 0 {
		if body, err = json.Marshal(list); err != nil {
			return true, failure.Wrap(err, failure.Unknown, "record early apply", "PD")
		}
	} else if revision == 0 {
		return true, nil
	}
	err = n.PutNote(ctx, recordName, body, revision)
	return !failure.Is(err, failure.Conflict) && !failure.Transient(err),
		failure.Annotate(err, "record early apply", "PD")
}

func readRecord(ctx context.Context, n pd.Notes) (list []Recorded, revision int64, err error) {
	body, revision, err := n.Note(ctx, recordName)
	if err != nil || revision == 0 {
		return nil, 0, failure.Annotate(err, "read the record of early apply", "PD")
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, 0, failure.New(failure.Corrupt, "read the record of early apply", "PD", "%w", err).
			WithHint("use the tisnap that wrote it, or delete the key /tisnap/%s in PD's etcd: restarting TiKV "+
				"brings its configured limit back", recordName)
	}
	return list, revision, nil
}
