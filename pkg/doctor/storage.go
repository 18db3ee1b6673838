package doctor

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// opener opens a store, at most once.
type opener func() (objstore.Store, error)

// checkWrites lists, reads, writes an object, sees that the server honors conditions, and deletes it.
func checkWrites(open opener) func(context.Context, Check) []Check {
	return func(ctx context.Context, c Check) []Check {
		store, err := open()
		if err != nil {
			return c.outcomeOf(err)
		}
		if _, err := store.List(ctx, absent()); err != nil {
			return c.outcomeOf(err)
		}
		if _, _, err := store.Get(ctx, absent()); unlessAbsent(err) != nil {
			return c.outcomeOf(err)
		}
		if err := storage.Prove(ctx, store); err != nil {
			return c.failed(err)
		}
		return c.ok("lists, reads, writes, conditional writes and deletes work")
	}
}

// absent is the name of an object that is not there: what is asked about it changes nothing, and S3 refuses it to whom
// it would refuse an object.
func absent() string { return manifest.ProbesPrefix + "absent-" + rand.Text() }

// checkIdentity sees whether the storage is a copy of another.
func (p *patient) checkIdentity(ctx context.Context, c Check) []Check {
	store, err := p.store()
	if err != nil {
		return c.notMade(err)
	}
	found, err := storage.Read(ctx, store)
	switch {
	case err != nil:
		return c.outcomeOf(err)
	case found.ID == "":
		return c.ok("none yet")
	}
	if err := found.RefuseCopy("use storage"); err != nil {
		return c.failed(err)
	}
	return c.ok("%s", found.ID)
}

// ofBucket makes a check of a store's bucket, if it has one.
func ofBucket(open opener, c Check, f func(objstore.Bucket) []Check) []Check {
	store, err := open()
	if err != nil {
		return c.notMade(err)
	}
	b, ok := objstore.BucketOf(store)
	if !ok {
		return c.ok("it is not in S3")
	}
	return f(b)
}

// enabled is S3's word.
const enabled = "Enabled"

func (p *patient) checkVersioning(ctx context.Context, c Check) []Check {
	return ofBucket(p.store, c, func(b objstore.Bucket) []Check {
		switch status, err := b.Versioning(ctx); {
		case err != nil:
			return c.notMade(err)
		case status != enabled:
			return c.as(Warn, "aws s3api put-bucket-versioning --bucket "+b.Name()+
				" --versioning-configuration Status=Enabled",
				"it is off: a manifest that is deleted or overwritten by mistake is lost")
		}
		return c.ok("it is on")
	})
}

// checkLifecycle finds rules that take objects away from tisnap, which deletes its own, and, with versioning, the lack
// of one for old versions: a run replaces its lock every few seconds. There are no multipart uploads to abort.
func (p *patient) checkLifecycle(ctx context.Context, c Check) []Check {
	return ofBucket(p.store, c, func(b objstore.Bucket) []Check {
		rules, err := b.Lifecycle(ctx)
		if err != nil {
			return c.notMade(err)
		}
		var expire, archive []string
		cleaned := false
		for _, r := range rules {
			if r.Expires {
				expire = append(expire, r.ID)
			}
			if r.Archive != "" {
				archive = append(archive, r.ID+" ("+r.Archive+")")
			}
			cleaned = cleaned || r.NoncurrentExpires
		}
		const fix = "exclude the storage's prefix from the rule; tisnap prune, delete and gc delete what is old"
		versioning, err := b.Versioning(ctx)
		switch {
		case len(expire) > 0:
			return c.as(Fail, fix, "rule %s deletes objects of the storage", strings.Join(expire, ", "))
		case len(archive) > 0:
			return c.as(Fail, fix, "rule %s moves objects to where they cannot be read", strings.Join(archive, ", "))
		case err == nil && versioning == enabled && !cleaned:
			return c.as(Warn, "add a lifecycle rule with NoncurrentVersionExpiration, such as 30 days",
				"no rule expires old versions: every renewal of a lock leaves one for good")
		}
		return c.ok("no rule deletes or archives objects of the storage")
	})
}

func (p *patient) checkObjectLock(ctx context.Context, c Check) []Check {
	return ofBucket(p.store, c, func(b objstore.Bucket) []Check {
		switch lock, err := b.ObjectLock(ctx); {
		case err != nil:
			return c.notMade(err)
		case !lock.Enabled:
			return c.ok("it is off")
		case lock.Mode == "":
			return c.ok("it is on, without a default retention")
		default:
			return c.ok("%s: each version is kept for %d days", lock.Mode, lock.Days)
		}
	})
}

// AWS refuses requests whose time differs by more than 5 minutes (S3: 15).
const (
	warnSkew = time.Minute
	failSkew = 5 * time.Minute
)

// compare judges a clock that was read between two moments of this machine's.
func (c Check) compare(before, at, after time.Time) []Check {
	skew := at.Sub(before.Add(after.Sub(before) / 2)).Round(time.Second)
	text := skew.String() + " ahead of this machine's"
	if skew < 0 {
		text = (-skew).String() + " behind this machine's"
	}
	const fix = "synchronize the clocks (chrony with the Amazon Time Sync Service): AWS refuses requests that are " +
		"more than 5 minutes off"
	switch {
	case skew.Abs() > failSkew:
		return c.as(Fail, fix, "%s", text)
	case skew.Abs() > warnSkew:
		return c.as(Warn, fix, "%s", text)
	}
	return c.ok("%s", text)
}

func (p *patient) checkPDClock(ctx context.Context, c Check) []Check {
	d, err := p.pd()
	if err != nil {
		return c.notMade(err)
	}
	before := p.now()
	ts, err := d.Now(ctx)
	if err != nil {
		return c.notMade(err)
	}
	return c.compare(before, ts.Time(), p.now())
}

func (p *patient) checkS3Clock(ctx context.Context, c Check) []Check {
	return ofBucket(p.store, c, func(b objstore.Bucket) []Check {
		before := p.now()
		at, err := b.Clock(ctx)
		switch {
		case err != nil:
			return c.notMade(err)
		case at.IsZero():
			return c.as(Unknown, "", "the server's answer has no date")
		}
		return c.compare(before, at, p.now())
	})
}
