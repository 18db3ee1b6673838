// Package replace puts archives in place of archives, each restoring the same from other packs, beside any number of
// clients: package lease has the rules.
package replace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// endWithin bounds the end of a lease.
const endWithin = 10 * time.Second

// Archives are those that may be replaced under a lease, in the versions that Run has read, or that Commit made of
// these.
type Archives struct {
	// Replaced archives were replaced, and Left were not, or others replaced or forgot them meanwhile.
	Replaced map[string]bool
	Left     int

	repository *repository.Repository
	versions   map[string]objstore.Version
}

// Run takes a rewriter's lease, calls read with each archive, or why it cannot be read, and then do. An archive that
// cannot be read, and of which read returns no error, is not replaced. The context of do ends once the lease is broken,
// which is then the error.
func Run(
	ctx context.Context, r *repository.Repository, owner string,
	read func(id string, a *format.Archive, err error) error, do func(context.Context, *Archives) error,
) (err error) {
	l, err := lease.Rewrite(ctx, r.Objects(), owner)
	if err != nil {
		return err
	}
	kept, stop := l.Keep(ctx, lease.RenewEvery)
	defer func() {
		stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		if released := l.Release(ctx); failure.Is(released, failure.Conflict) {
			err = released // why whatever failed did
		} else {
			err = errors.Join(err, released)
		}
	}()
	a := &Archives{Replaced: map[string]bool{}, repository: r, versions: map[string]objstore.Version{}}
	err = Each(kept, r, func(id string, archive *format.Archive, version objstore.Version, err error) error {
		if err == nil {
			a.versions[id] = version
		}
		return read(id, archive, err)
	})
	if err != nil {
		return err
	}
	if err := l.Renew(kept); err != nil {
		return err
	}
	return do(kept, a)
}

// Each calls use for each archive, as it is now, with its version, or why it cannot be read.
func Each(
	ctx context.Context, r *repository.Repository,
	use func(id string, a *format.Archive, version objstore.Version, err error) error,
) error {
	ids, err := r.Archives(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		a, version, err := r.ArchiveVersion(ctx, id)
		if Gone(err) {
			continue
		}
		if err := use(id, a, version, err); err != nil {
			return err
		}
	}
	return nil
}

// Gone reports whether an error is about an object that is not there, and not about the storage.
func Gone(err error) bool { return failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" }

// Commit replaces each archive that change reports to have changed. All that they refer to is written.
func (a *Archives) Commit(ctx context.Context, change func(id string, a *format.Archive) bool) error {
	for _, id := range slices.Sorted(maps.Keys(a.versions)) {
		archive, version, err := a.repository.ArchiveVersion(ctx, id)
		if err != nil && !Gone(err) {
			return err
		}
		if version != a.versions[id] { // another one, or none
			a.leave(id)
			continue
		}
		if !change(id, archive) {
			continue
		}
		version, err = a.repository.Recommit(ctx, id, archive, version)
		switch {
		case failure.Is(err, failure.Conflict):
			a.leave(id)
		case err != nil:
			return err
		default:
			a.versions[id], a.Replaced[id] = version, true
		}
	}
	return nil
}

// leave gives an archive up: whoever replaced it may have broken the lease, and what it refers to is unknown.
func (a *Archives) leave(id string) {
	delete(a.versions, id)
	delete(a.Replaced, id)
	a.Left++
}
