package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Other is a lease that anyone holds.
type Other struct {
	Record
	Key     string
	Err     error // why it cannot be read: it counts as one of the oldest epoch, and is never broken
	version objstore.Version
}

// All reads all leases.
func All(ctx context.Context, store objstore.Store) ([]Other, error) {
	objects, err := store.List(ctx, format.LeasePrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list leases", store.URL())
	}
	var out []Other
	for _, o := range objects {
		text, version, err := store.Get(ctx, o.Key)
		if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
			continue // it ended
		}
		if err != nil {
			return nil, failure.Annotate(err, "read lease", o.Key)
		}
		other := Other{Key: o.Key, version: version}
		if err := json.Unmarshal(text, &other.Record); err != nil {
			other.Record, other.Err = Record{}, failure.Wrap(err, failure.Corrupt, "read lease", o.Key)
		}
		out = append(out, other)
	}
	return out, nil
}

// OneWriter returns a Conflict if another archive is being made, and the storage allows only one writer at a time.
func OneWriter(ctx context.Context, store objstore.Store, settings format.Settings, archive string) error {
	if settings.Storage.ManyWriters() {
		return nil
	}
	others, err := All(ctx, store)
	if err != nil {
		return err
	}
	for i := range others {
		if others[i].Archive != "" {
			return failure.New(failure.Conflict, "create archive", archive,
				"archive %s is being made, and the repository's storage allows one writer at a time: it ignores "+
					"conditional writes", others[i].Archive).
				WithHint("finish that run by its command; if it is given up, delete %s", others[i].Key)
		}
	}
	return nil
}

// Blocks reports whether a list must wait for the lease.
func (o *Other) Blocks(list List) bool { return o.Epoch < list.Epoch }

// Silent reports whether the lease has not been renewed for so long. It is a guess: the clocks may differ.
func (o *Other) Silent(after time.Duration) bool {
	return o.Err == nil && time.Since(o.Renewed) >= after
}

// Decided reports whether a writer's archive was committed, or cannot be any more: its lease is only a leftover.
func (o *Other) Decided(ctx context.Context, store objstore.Store) (bool, error) {
	path, err := format.ArchivePath(o.Archive)
	if o.Err != nil || err != nil {
		return false, nil // it is a reader's
	}
	_, _, err = store.Get(ctx, path)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return false, nil
	}
	return err == nil, err
}

// Break ends a lease of any owner. A writer then has committed already, or cannot commit any more; nor can a rewriter:
// sealAgain, which is called for one alone, gives each archive another version. It fails with a Conflict if the owner
// renewed the lease meanwhile, though its writer may not be able to commit then, and if another write of the archive
// was under way, so that nothing is decided yet.
func (o *Other) Break(ctx context.Context, store objstore.Store, sealAgain func(context.Context) error) error {
	if o.Err != nil {
		return o.Err
	}
	if o.Rewriter {
		if err := o.markBroken(ctx, store); err != nil {
			return err
		}
		if err := sealAgain(ctx); err != nil {
			return failure.Annotate(err, "break lease", o.Key)
		}
	}
	if o.Archive != "" {
		path, err := format.ArchivePath(o.Archive)
		if err != nil {
			return err
		}
		if _, err = store.Create(ctx, path, []byte(format.Tombstone)); failure.Is(err, failure.Conflict) {
			// S3 has that for a write that meets another one, too, of which either may have failed.
			if decided, readErr := o.Decided(ctx, store); decided || readErr != nil {
				err = readErr
			}
		}
		if err != nil {
			return failure.Annotate(err, "break lease", o.Key)
		}
	}
	return o.Drop(ctx, store)
}

// markBroken keeps a rewriter from renewing its lease: it then replaces no version that it has not read before.
func (o *Other) markBroken(ctx context.Context, store objstore.Store) error {
	if o.Broken {
		return nil
	}
	next := o.Record
	next.Broken, next.Nonce = true, rand.Text()
	text, err := json.Marshal(next)
	if err == nil {
		o.version, err = store.Replace(ctx, o.Key, text, o.version)
	}
	return failure.Annotate(err, "break lease", o.Key)
}

// Drop deletes the lease of a writer whose archive is decided, unless it was renewed meanwhile.
func (o *Other) Drop(ctx context.Context, store objstore.Store) error {
	return failure.Annotate(store.DeleteVersion(ctx, o.Key, o.version), "break lease", o.Key)
}
