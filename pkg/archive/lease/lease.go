package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// RenewEvery is how often a kept lease is to be renewed. Prunes break leases after many times of it.
const RenewEvery = time.Hour

// Record is a lease's object.
type Record struct {
	// Archive is the id of what a writer is going to commit, and of nothing else; "" for a reader.
	Archive string `json:"archive,omitempty"`
	// Rewriter is a prune or repair that replaces archives. Broken is one that cannot renew its lease any more: see
	// Break.
	Rewriter bool      `json:"rewriter,omitempty"`
	Broken   bool      `json:"broken,omitempty"`
	Epoch    int64     `json:"epoch"`
	Owner    string    `json:"owner"` // for people
	Started  time.Time `json:"started"`
	Renewed  time.Time `json:"renewed"`
	Nonce    string    `json:"nonce"` // no two versions are equal
}

// Lease is one that this process holds. It is safe for concurrent use.
type Lease struct {
	store objstore.Store
	key   string

	mu      sync.Mutex
	record  Record
	version objstore.Version
}

// Write takes the lease of a writer that is going to commit this archive. The writer then reads what is condemned, and
// after that the repository's archives: what it finds there, and is not condemned, stays until the lease has ended.
func Write(ctx context.Context, store objstore.Store, archive, owner string) (*Lease, error) {
	if _, err := format.ArchivePath(archive); err != nil {
		return nil, err
	}
	state, _, err := readState(ctx, store)
	if err != nil {
		return nil, err
	}
	l := &Lease{store: store, key: format.LeasePrefix + archive}
	l.record = newRecord(owner, state.Epoch)
	l.record.Archive = archive
	if err := l.create(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Read takes the lease of a reader: what archives refer to that it finds afterwards stays until the lease has ended.
func Read(ctx context.Context, store objstore.Store, owner string) (*Lease, error) {
	return read(ctx, store, "read-", owner, false)
}

// Rewrite takes the lease of a prune that is going to replace archives. It is a reader's, and what is written under it
// stays, too. The prune then reads the archives and their versions, and after that renews the lease once: from then on
// it may replace these versions, and those that it made itself, for as long as it likes. Once the lease is broken there
// are none of them any more.
func Rewrite(ctx context.Context, store objstore.Store, owner string) (*Lease, error) {
	return read(ctx, store, "rewrite-", owner, true)
}

func read(ctx context.Context, store objstore.Store, kind, owner string, rewriter bool) (*Lease, error) {
	state, _, err := readState(ctx, store)
	if err != nil {
		return nil, err
	}
	epoch := state.Epoch
	for _, list := range state.Lists { // they wait for this lease, too
		epoch = min(epoch, list.Epoch-1)
	}
	l := &Lease{store: store, key: format.LeasePrefix + kind + strings.ToLower(rand.Text())}
	l.record = newRecord(owner, epoch)
	l.record.Rewriter = rewriter
	return l, l.create(ctx)
}

// Resume continues with the lease of a writer whose process ended; what is condemned is to be read as after Write. A
// Conflict means that it was broken: what its writer stored may be gone, and it cannot commit.
func Resume(ctx context.Context, store objstore.Store, archive string) (*Lease, error) {
	l := &Lease{store: store, key: format.LeasePrefix + archive}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	if err := l.Renew(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func newRecord(owner string, epoch int64) Record {
	now := time.Now().UTC()
	return Record{Epoch: epoch, Owner: owner, Started: now, Renewed: now, Nonce: rand.Text()}
}

func (l *Lease) create(ctx context.Context) error {
	text, err := json.Marshal(l.record)
	if err != nil {
		return failure.Wrap(err, failure.Usage, "take lease", l.key)
	}
	l.version, err = l.store.Create(ctx, l.key, text)
	if err != nil { // it may have happened
		if stored, version, readErr := l.store.Get(ctx, l.key); readErr == nil && string(stored) == string(text) {
			l.version, err = version, nil
		}
	}
	return failure.Annotate(err, "take lease", l.key)
}

// read loads the current version. Without one the lease was broken: Conflict.
func (l *Lease) read(ctx context.Context) error {
	text, version, err := l.store.Get(ctx, l.key)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return broken(l.key)
	}
	if err != nil {
		return failure.Annotate(err, "read lease", l.key)
	}
	if err := json.Unmarshal(text, &l.record); err != nil {
		return failure.Wrap(err, failure.Corrupt, "read lease", l.key)
	}
	if l.record.Broken {
		return broken(l.key)
	}
	l.version = version
	return nil
}

func broken(key string) error {
	return failure.New(failure.Conflict, "keep lease", key, "a prune broke it, since it was not renewed for long").
		WithHint("run the same command again, which starts from scratch; if this process was not stopped, use a " +
			"longer --break-leases-after for `tisnap archive prune`")
}

// Renew shows that the owner lives. A Conflict means that the lease was broken.
func (l *Lease) Renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		next := l.record
		next.Renewed, next.Nonce = time.Now().UTC(), rand.Text()
		text, err := json.Marshal(next)
		if err != nil {
			return failure.Wrap(err, failure.Usage, "renew lease", l.key)
		}
		version, err := l.store.Replace(ctx, l.key, text, l.version)
		if err == nil {
			l.record, l.version = next, version
			return nil
		}
		if !failure.Is(err, failure.Conflict) {
			return failure.Annotate(err, "renew lease", l.key)
		}
		if err := l.read(ctx); err != nil { // otherwise another process of the run, or a lost answer, renewed it
			return err
		}
	}
}

// Keep renews the lease until stop is called or ctx ends. The returned context ends with it, or once the lease is found
// to be broken: the Conflict is then its cause. stop waits for the renewals to end.
func (l *Lease) Keep(ctx context.Context, every time.Duration) (kept context.Context, stop func()) {
	kept, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-kept.Done():
				return
			case <-ticker.C:
				if err := l.Renew(kept); failure.Is(err, failure.Conflict) {
					lose(err)
					return
				}
			}
		}
	}()
	return kept, func() {
		lose(context.Canceled)
		<-done
	}
}

// Release ends the lease. A Conflict means that it was broken before: what a reader found missing may have been
// deleted since, and a writer has not committed.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(ctx); err != nil {
		return err
	}
	return failure.Annotate(l.store.Delete(ctx, l.key), "end lease", l.key)
}

// End ends the lease of a writer that has committed, or never will, if there is one still.
func End(ctx context.Context, store objstore.Store, archive string) error {
	return failure.Annotate(store.Delete(ctx, format.LeasePrefix+archive), "end lease", archive)
}
