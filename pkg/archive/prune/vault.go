package prune

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// retains are how many requests about retention are made at the same time.
const retains = 32

// Locked are objects that Object Lock keeps, the last of them until Until.
type Locked struct {
	Amount
	Until time.Time `json:"until,omitzero"`
}

func (l *Locked) lock(o lease.Object, until time.Time) {
	l.add(o)
	if until.After(l.Until) {
		l.Until = until
	}
}

// vault is the repository's bucket if it keeps versions. Its times only decide what is asked and reported: S3 alone
// decides what is deleted.
type vault struct {
	objstore.Bucket
	on     bool
	now    time.Time     // of the server
	period time.Duration // how long what is written stays locked; 0 is not at all, or not known
}

func (v *vault) open(ctx context.Context, r *repository.Repository) (err error) {
	if v.Bucket, v.on, err = r.Versioned(ctx); err != nil || !v.on {
		return err
	}
	if v.now, err = v.Clock(ctx); err != nil {
		return err
	}
	if v.now.IsZero() {
		v.now = time.Now().UTC()
	}
	if v.period = r.Settings().Retention.Period(); v.period == 0 {
		if usual, err := v.ObjectLock(ctx); err == nil { // the permission is optional
			v.period = time.Duration(usual.Days) * 24 * time.Hour
		}
	}
	return nil
}

// locks returns until when Object Lock keeps each of the objects; zero of one that it does not keep, or no longer.
func (v *vault) locks(ctx context.Context, objects []repository.Stored) ([]time.Time, error) {
	until := make([]time.Time, len(objects))
	if !v.on || v.period == 0 {
		return until, nil
	}
	err := parallel.Each(ctx, retains, objects, func(ctx context.Context, i int, o repository.Stored) error {
		if end := o.Modified.Add(v.period); end.After(v.now) {
			until[i] = end
			return nil
		}
		r, err := v.Retention(ctx, o.Key, o.ID) // which prunes may have extended
		if err == nil && r.Until.After(v.now) {
			until[i] = r.Until
		}
		if replace.Gone(err) { // another prune has deleted it
			err = nil
		}
		return err
	})
	return until, err
}

// remove deletes a pack or a segment for ever, with all of its versions. One that Object Lock keeps is left, and until
// when is returned.
func (p *pruner) remove(ctx context.Context, key string) (until time.Time, err error) {
	if !p.vault.on {
		return until, p.repository.Objects().Delete(ctx, key)
	}
	versions, err := p.vault.Versions(ctx, key)
	for _, v := range versions {
		if v.Key != key {
			continue
		}
		err := p.vault.Remove(ctx, key, v.ID)
		if failure.Is(err, failure.Denied) {
			if r, readErr := p.vault.Retention(ctx, key, v.ID); readErr == nil && r.Until.After(p.vault.now) {
				return r.Until, nil
			}
		}
		if err != nil {
			return until, err
		}
	}
	return until, err
}

// extend retains what archives refer to for the whole period again, once less than two thirds of it are left: what a
// writer begins to refer to meanwhile, and this prune does not see, has a third at the next time. What was written
// since the oldest run under way began is retained from its write on, which is enough for a third of the period. While
// what is in use is unknown, all is retained.
func (p *pruner) extend(ctx context.Context, all bool) error {
	keep := p.repository.Settings().Retention
	if !p.vault.on || keep.Days == 0 {
		return nil
	}
	until, err := p.repository.Retained(ctx)
	if err != nil || until.Sub(p.vault.now) >= keep.Period()*2/3 {
		return err
	}
	since, err := p.began(ctx)
	if err != nil {
		return err
	}
	if !all {
		if err := p.mark(ctx); err != nil {
			return err
		}
	}
	young := p.vault.now.Add(-keep.Period() / 3)
	if young.Before(since) {
		young = since
	}
	wanted := objstore.Retention{Mode: keep.Mode, Until: p.vault.now.Add(keep.Period())}
	var extended atomic.Int64
	each := func(ctx context.Context, _ int, o repository.Stored) error {
		extended.Add(1)
		if p.opts.DryRun {
			return nil
		}
		return failure.Annotate(p.vault.Extend(ctx, o.Key, o.ID, wanted), "extend retention", o.Key)
	}
	err = p.eachPart(ctx, []string{format.PackPrefix, format.SegmentPrefix},
		func(ctx context.Context, objects []repository.Stored) error {
			objects = slices.DeleteFunc(objects, func(o repository.Stored) bool {
				return !all && !p.refers(o.Key) || !o.Modified.Before(young)
			})
			return parallel.Each(ctx, retains, objects, each)
		})
	var replaceable []repository.Stored
	if err == nil {
		replaceable, err = p.replaceable(ctx, all)
	}
	if err == nil {
		err = parallel.Each(ctx, retains, replaceable, each)
	}
	p.report.Extended = extended.Load()
	if err != nil || p.opts.DryRun {
		return err
	}
	return p.repository.SetRetained(ctx, since.Add(keep.Period()))
}

// replaceable are repo.json and the archives, of which the newest version counts.
func (p *pruner) replaceable(ctx context.Context, all bool) ([]repository.Stored, error) {
	out := []repository.Stored{{Object: objstore.Object{Key: format.RepositoryPath}}}
	last, err := repository.LastVersions(ctx, p.vault.Bucket, format.ArchivePrefix)
	for _, key := range slices.Sorted(maps.Keys(last)) {
		v := last[key]
		_, is := p.archives[strings.TrimPrefix(key, format.ArchivePrefix)]
		if is || all && v.Size != int64(len(format.Tombstone)) {
			out = append(out, repository.Stored{Object: objstore.Object{Key: v.Key}, ID: v.ID})
		}
	}
	return out, err
}

// began is when the oldest run under way began to write, or now.
func (p *pruner) began(ctx context.Context) (time.Time, error) {
	since := p.vault.now
	all, err := lease.All(ctx, p.repository.Objects())
	for i := range all {
		if o := &all[i]; (o.Archive != "" || o.Rewriter || o.Err != nil) && o.Started.Before(since) {
			since = o.Started
		}
	}
	return since, err
}
