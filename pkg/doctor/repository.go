package doctor

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// nullVersion is the version of an object in a bucket that kept none when it was written.
const nullVersion = "null"

// checkRepositoryVersions tries what a prune needs to delete in a bucket that keeps versions.
func (p *patient) checkRepositoryVersions(ctx context.Context, c Check) []Check {
	return ofBucket(p.repository, c, func(b objstore.Bucket) []Check {
		status, err := b.Versioning(ctx)
		unseen := failure.Is(err, failure.Denied)
		switch {
		case err != nil && !unseen:
			return c.notMade(err)
		case err == nil && status == "":
			return c.ok("the bucket keeps none")
		}
		optional := optionalIf(unseen, "only a bucket that keeps versions needs it")
		_, listed := b.Versions(ctx, absent())
		removed := b.Remove(ctx, absent(), nullVersion)
		return c.allOf("versions can be listed and deleted",
			tried{err, "without it prune leaves the bytes of what it deletes"},
			tried{listed, optional}, tried{removed, optional})
	})
}

// checkRepositoryLock tries what a bucket with Object Lock needs, and what a repository with a retention does.
func (p *patient) checkRepositoryLock(ctx context.Context, c Check) []Check {
	return ofBucket(p.repository, c, func(b objstore.Bucket) []Check {
		lock, err := b.ObjectLock(ctx)
		unseen := failure.Is(err, failure.Denied)
		switch {
		case err != nil && !unseen:
			return c.notMade(err)
		case err == nil && !lock.Enabled:
			return c.ok("it is off")
		}
		optional := optionalIf(unseen, "only a bucket with Object Lock needs it")
		_, asked := b.Retention(ctx, absent(), "")
		_, _, read := b.Get(ctx, absent(), nullVersion)
		set := b.Extend(ctx, absent(), "", objstore.Retention{
			Mode: objstore.RetainGovernance, Until: p.now().Add(24 * time.Hour),
		})
		if unseen { // a bucket without a lock answers InvalidRequest, if the role may ask
			asked, set = unless(failure.Usage, asked), unless(failure.Usage, set)
		}
		return c.allOf("retentions can be read and set, and versions read",
			tried{err, "archive init needs it for a --retention"}, tried{asked, optional}, tried{read, optional},
			tried{set, "only a repository with a --retention needs it"})
	})
}

// tried is how a request ended that needs a permission.
type tried struct {
	err error
	// optional is what the permission is for, if one can do without it; "" if not.
	optional string
}

// optionalIf is why a permission may be missing as long as it is not seen whether it is needed.
func optionalIf(unseen bool, why string) string {
	if unseen {
		return why
	}
	return ""
}

// allOf shows each request that failed, or that all went well. None hides another.
func (c Check) allOf(well string, all ...tried) []Check {
	var wrong []Check
	for _, t := range all {
		switch err := unlessAbsent(t.err); {
		case err == nil:
		case t.optional != "" && failure.Is(err, failure.Denied):
			wrong = append(wrong, c.as(Warn, failure.HintOf(err), "%v; %s", err, t.optional)...)
		default:
			wrong = append(wrong, c.outcomeOf(err)...)
		}
	}
	if len(wrong) == 0 {
		return c.ok("%s", well)
	}
	return wrong
}

// unlessAbsent is nil if all that is wrong is that the object is not there.
func unlessAbsent(err error) error { return unless(failure.NotFound, err) }

// unless is nil if the error is of this kind, and there is nothing to do about it.
func unless(k failure.Kind, err error) error {
	if failure.Is(err, k) && failure.HintOf(err) == "" {
		return nil
	}
	return err
}
