package doctor

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// checkRepository writes an object of archives' repository, sees that the server honors conditions, and deletes it.
func (p *patient) checkRepository(ctx context.Context, c Check) []Check {
	store, err := p.repository()
	if err != nil {
		return c.outcomeOf(err)
	}
	if _, err := store.List(ctx, absent()); err != nil {
		return c.outcomeOf(err)
	}
	if err := storage.Prove(ctx, store); err != nil {
		return c.failed(err)
	}
	return c.ok("lists, writes, conditional writes and deletes work")
}

// absent is the name of an object that is not there: what is asked about it changes nothing, and S3 refuses it to whom
// it would refuse an object.
func absent() string { return "probes/absent-" + rand.Text() }

// nullVersion is the version of an object in a bucket that kept none when it was written.
const nullVersion = "null"

// checkRepositoryVersions tries what a prune needs to delete in a bucket that keeps versions.
func (p *patient) checkRepositoryVersions(ctx context.Context, c Check) []Check {
	store, err := p.repository()
	if err != nil {
		return c.notMade(err)
	}
	b, ok := objstore.BucketOf(store)
	if !ok {
		return c.ok("the repository is not in S3")
	}
	status, err := b.Versioning(ctx)
	switch {
	case failure.Is(err, failure.Denied):
		return c.as(Warn, failure.HintOf(err), "%v; without it prune leaves the bytes of what it deletes", err)
	case err != nil:
		return c.notMade(err)
	case status == "":
		return c.ok("the bucket keeps none")
	}
	if _, err := b.Versions(ctx, absent()); err != nil {
		return c.outcomeOf(err)
	}
	if err := b.Remove(ctx, absent(), nullVersion); err != nil {
		return c.outcomeOf(err)
	}
	return c.ok("versions can be listed and deleted")
}

// checkRepositoryLock tries what a bucket with Object Lock needs, and what a repository with a retention does.
func (p *patient) checkRepositoryLock(ctx context.Context, c Check) []Check {
	store, err := p.repository()
	if err != nil {
		return c.notMade(err)
	}
	b, ok := objstore.BucketOf(store)
	if !ok {
		return c.ok("the repository is not in S3")
	}
	lock, err := b.ObjectLock(ctx)
	switch {
	case failure.Is(err, failure.Denied):
		return c.as(Warn, failure.HintOf(err), "%v; archive init needs it for a --retention", err)
	case err != nil:
		return c.notMade(err)
	case !lock.Enabled:
		return c.ok("it is off")
	}
	_, err = b.Retention(ctx, absent(), "")
	if err = unlessAbsent(err); err != nil {
		return c.outcomeOf(err)
	}
	_, _, err = b.Get(ctx, absent(), nullVersion)
	if err = unlessAbsent(err); err != nil {
		return c.outcomeOf(err)
	}
	err = b.Extend(ctx, absent(), "", objstore.Retention{
		Mode: objstore.RetainGovernance, Until: p.now().Add(24 * time.Hour),
	})
	switch err = unlessAbsent(err); {
	case failure.Is(err, failure.Denied):
		return c.as(Warn, failure.HintOf(err), "%v; only a repository with a --retention needs it", err)
	case err != nil:
		return c.outcomeOf(err)
	}
	return c.ok("retentions can be read and set, and versions read")
}

// unlessAbsent is nil if all that is wrong is that the object is not there.
func unlessAbsent(err error) error {
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return nil
	}
	return err
}
