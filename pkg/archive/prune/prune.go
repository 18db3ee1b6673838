package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// maxGarbage bounds how many objects one prune condemns, and so its memory.
	maxGarbage = 500_000
	// deletes are how many objects are deleted at the same time.
	deletes = 16
	// swaps is how often an epoch is begun, and an archive forgotten, while others are faster.
	swaps = 10
	// breakRewriterAfter is Options.BreakAfter of another prune's lease.
	breakRewriterAfter = 2 * time.Hour
)

// Options are what the user chose. No value makes a prune delete what an archive refers to.
type Options struct {
	// MinAge leaves out younger objects, and those younger than any writer: of runs under way, which would only be
	// looked at in vain.
	MinAge time.Duration
	// BreakAfter is how long a lease was not renewed if it is broken; negative: never. That of another prune is broken
	// after two hours in any case, since no run is lost with it.
	BreakAfter time.Duration
	// MaxUnused is the share of the packs in use that may stay unused, before those that are unused most are rewritten;
	// 1 rewrites none.
	MaxUnused float64
	Owner     string // of the lease of a rewriting, for people
	// DryRun changes nothing: Garbage is all that no archive refers to, and Waiting the part of it that was condemned
	// before, and waits for leases.
	DryRun bool
}

// Amount is a number of objects.
type Amount struct {
	Packs    int64 `json:"packs"`
	Segments int64 `json:"segments"`
	Bytes    int64 `json:"bytes"`
}

func (a *Amount) add(o lease.Object) {
	if _, err := format.ParsePackPath(o.Key); err == nil {
		a.Packs++
	} else {
		a.Segments++
	}
	a.Bytes += o.Size
}

// Report is what was found and done, as far as it got, also on error.
type Report struct {
	Archives int    `json:"archives"`
	Stored   Amount `json:"stored"`  // all packs and segments, before anything is deleted
	Garbage  Amount `json:"garbage"` // that was found now, and is condemned
	Young    Amount `json:"young"`   // that no archive refers to either, but is too young
	// Rewriting is what was rewritten because too much of it was unused, or would be.
	Rewriting Rewriting `json:"rewriting"`
	Deleted   Amount    `json:"deleted"`
	Kept      Amount    `json:"kept"` // condemned, and referred to by the time
	// Locked is what no archive refers to and Object Lock keeps still.
	Locked Locked `json:"locked"`
	// Extended are objects that are referred to, and were retained for longer.
	Extended int64 `json:"extended"`
	// UnusedBytes is about how much of the packs that are in use no archive refers to, in the end.
	UnusedBytes int64 `json:"unusedBytes"`
	// Waiting are condemned objects that were not deleted, since leases are in the way, and Broken the keys of leases
	// that were broken.
	Waiting []Waiting `json:"waiting"`
	Broken  []string  `json:"broken"`
}

// Waiting is a list of condemned objects that waits for leases.
type Waiting struct {
	Amount
	Epoch  int64    `json:"epoch"`
	Leases []string `json:"leases"` // keys, with their owners
}

// pruner is one prune.
type pruner struct {
	*marker
	opts   Options
	report *Report
	shares shares
	vault  vault
}

// Run prunes a repository: it deals with what earlier prunes condemned, condemns what no archive refers to, and deletes
// it unless a lease is in the way. Then it rewrites packs that are mostly unused, and does all of that again for what
// nothing refers to after it. Run it again for what is Waiting, and after an error.
func Run(ctx context.Context, r *repository.Repository, o Options) (*Report, error) {
	p := &pruner{marker: newMarker(r), opts: o, report: &Report{Waiting: []Waiting{}, Broken: []string{}}}
	err := p.run(ctx)
	p.report.Archives = len(p.archives)
	return p.report, err
}

func (p *pruner) run(ctx context.Context) error {
	if err := p.vault.open(ctx, p.repository); err != nil {
		return err
	}
	err := p.prune(ctx)
	if ctx.Err() == nil { // whatever fails, locks end
		unreadable := failure.Is(err, failure.Corrupt) || failure.Is(err, failure.Usage)
		if extendErr := p.extend(ctx, unreadable); extendErr != nil {
			err = errors.Join(err, extendErr)
		}
	}
	if n := p.report.Rewriting.Damaged; err == nil && n > 0 {
		err = failure.New(failure.Corrupt, "rewrite packs", "", "%d blocks are damaged, and stay where they are", n).
			WithHint("`tisnap archive verify` finds the archives")
	}
	return err
}

// prune deletes and rewrites.
func (p *pruner) prune(ctx context.Context) error {
	if !p.opts.DryRun {
		if err := p.tidy(ctx); err != nil {
			return err
		}
		if err := p.sweep(ctx); err != nil {
			return err
		}
	}
	if err := p.pass(ctx); err != nil {
		return err
	}
	next := newMarker(p.repository)
	rewritten, err := p.rewrite(ctx, next)
	if err == nil && rewritten {
		stored := p.report.Stored
		p.marker = next
		err = p.pass(ctx)
		p.report.Stored = stored
	}
	return err
}

// pass condemns what no archive refers to, and deletes what it may.
func (p *pruner) pass(ctx context.Context) error {
	garbage, err := p.find(ctx)
	if err != nil {
		return err
	}
	if p.opts.DryRun {
		return p.eachList(ctx, func(ctx context.Context, list lease.List, objects []lease.Object) error {
			_, err := p.blocked(ctx, list, objects)
			return err
		})
	}
	if len(garbage) > 0 {
		if err := p.condemn(ctx, garbage); err != nil {
			return err
		}
	}
	p.report.Waiting = []Waiting{} // all lists are looked at again
	return p.sweep(ctx)
}

// tidy ends the leases that are left over, or look dead, and the lists that were.
func (p *pruner) tidy(ctx context.Context) error {
	all, err := lease.All(ctx, p.repository.Objects())
	if err != nil {
		return err
	}
	for i := range all {
		if _, err := p.end(ctx, &all[i]); err != nil {
			return err
		}
	}
	if err = units.Tidy(ctx, p.repository.Objects()); err != nil {
		return err
	}
	if err = lease.Tidy(ctx, p.repository.Objects()); failure.Is(err, failure.Conflict) { // another prune is at it
		return nil
	}
	return err
}

// find lists what no archive refers to and no list has.
func (p *pruner) find(ctx context.Context) (garbage []lease.Object, err error) {
	oldest, err := p.oldest(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.mark(ctx); err != nil {
		return nil, err
	}
	known, err := lease.ReadCondemned(ctx, p.repository.Objects())
	if err != nil {
		return nil, err
	}
	p.report.Stored, p.report.Young, p.report.Locked, p.shares = Amount{}, Amount{}, Locked{}, shares{}
	prefixes := []string{format.PackPrefix, format.SegmentPrefix}
	err = p.eachPart(ctx, prefixes, func(ctx context.Context, objects []repository.Stored) error {
		var dead []repository.Stored
		for _, o := range objects {
			found := lease.Object{Key: o.Key, Size: o.Size}
			p.report.Stored.add(found)
			switch {
			case p.refers(o.Key):
				if name, err := format.ParsePackPath(o.Key); err == nil {
					p.shares.add(o.Size, p.unused(name, o.Size))
				}
			case known.Has(o.Key) && !p.opts.DryRun:
			case !o.Modified.Before(oldest):
				p.report.Young.add(found)
			default:
				dead = append(dead, o)
			}
		}
		until, err := p.vault.locks(ctx, dead)
		if err != nil {
			return err
		}
		for i, o := range dead {
			found := lease.Object{Key: o.Key, Size: o.Size}
			switch {
			case !until[i].IsZero():
				p.report.Locked.lock(found, until[i])
			case len(garbage) < maxGarbage:
				p.report.Garbage.add(found)
				garbage = append(garbage, found)
			}
		}
		return nil
	})
	p.report.UnusedBytes = p.shares.unused
	return garbage, err
}

// eachPart calls do for the objects below the prefixes, of which it lists a 256th at a time.
func (p *pruner) eachPart(
	ctx context.Context, prefixes []string, do func(context.Context, []repository.Stored) error,
) error {
	for i := range 256 {
		for _, prefix := range prefixes {
			prefix = fmt.Sprintf("%s%02x", prefix, i)
			objects, err := p.repository.Stored(ctx, prefix, p.vault.on)
			if err != nil {
				return failure.Annotate(err, "list objects", prefix)
			}
			if err := do(ctx, objects); err != nil {
				return err
			}
		}
	}
	return nil
}

// oldest is the time since which objects are too young: those of runs under way are. It only saves work.
func (p *pruner) oldest(ctx context.Context) (time.Time, error) {
	since := time.Now()
	all, err := lease.All(ctx, p.repository.Objects())
	for _, o := range all {
		if o.Archive != "" && o.Started.Before(since) {
			since = o.Started
		}
	}
	return since.Add(-p.opts.MinAge), err
}

func (p *pruner) condemn(ctx context.Context, garbage []lease.Object) error {
	for try := 1; ; try++ {
		err := lease.Condemn(ctx, p.repository.Objects(), garbage)
		if try == swaps || !failure.Is(err, failure.Conflict) {
			return err
		}
	}
}

// sweep deletes what is condemned, list by list.
func (p *pruner) sweep(ctx context.Context) error { return p.eachList(ctx, p.delete) }

// eachList calls do for each list of condemned objects.
func (p *pruner) eachList(
	ctx context.Context, do func(context.Context, lease.List, []lease.Object) error,
) error {
	lists, err := lease.Lists(ctx, p.repository.Objects())
	if err != nil {
		return err
	}
	for _, list := range lists {
		objects, err := list.Objects(ctx, p.repository.Objects())
		if replace.Gone(err) {
			continue // another prune has ended it
		}
		if err != nil {
			return err
		}
		if err := do(ctx, list, objects); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a list's objects that no archive refers to. The order is that of the rules: it makes sure that none
// can be referred to again.
func (p *pruner) delete(ctx context.Context, list lease.List, objects []lease.Object) error {
	if blocked, err := p.blocked(ctx, list, objects); blocked || err != nil {
		return err
	}
	if err := p.mark(ctx); err != nil {
		return err
	}
	if blocked, err := p.blocked(ctx, list, objects); blocked || err != nil {
		return err
	}
	dead := slices.DeleteFunc(slices.Clone(objects), func(o lease.Object) bool { return p.refers(o.Key) })
	if stands, err := lease.Stands(ctx, p.repository.Objects(), list); !stands || err != nil {
		return err
	}
	until := make([]time.Time, len(dead))
	err := parallel.Each(ctx, deletes, dead, func(ctx context.Context, i int, o lease.Object) (err error) {
		until[i], err = p.remove(ctx, o.Key)
		return failure.Annotate(err, "delete", o.Key)
	})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if p.refers(o.Key) {
			p.report.Kept.add(o)
		}
	}
	for i, o := range dead {
		if until[i].IsZero() {
			p.report.Deleted.add(o)
		} else { // the next prune condemns it again
			p.report.Locked.lock(o, until[i])
		}
	}
	return lease.Finish(ctx, p.repository.Objects(), list)
}

// blocked reports whether leases are in the way of a list, after it broke those that look dead.
func (p *pruner) blocked(ctx context.Context, list lease.List, objects []lease.Object) (bool, error) {
	store := p.repository.Objects()
	many := p.repository.Settings().Storage.ManyWriters()
	all, err := lease.All(ctx, store)
	if err != nil {
		return false, err
	}
	wait := Waiting{Epoch: list.Epoch}
	for i := range all {
		o := &all[i]
		if many && !o.Blocks(list) {
			continue
		}
		ended, err := p.end(ctx, o)
		if err != nil {
			return false, err
		}
		if !ended {
			wait.Leases = append(wait.Leases, o.Key+" of "+o.Owner)
		}
	}
	if len(wait.Leases) == 0 {
		return false, nil
	}
	for _, o := range objects {
		wait.add(o)
	}
	p.report.Waiting = append(p.report.Waiting, wait)
	return true, nil
}

// end ends a lease that is left over, or looks dead. Without conditional writes none can be broken.
func (p *pruner) end(ctx context.Context, o *lease.Other) (bool, error) {
	store, many := p.repository.Objects(), p.repository.Settings().Storage.ManyWriters()
	decided, err := o.Decided(ctx, store)
	if err == nil && !decided && o.Archive != "" {
		decided, err = p.hidden(ctx, o)
	}
	switch {
	case err != nil || p.opts.DryRun:
		return decided, err
	case decided:
		err = o.Drop(ctx, store)
	case many && (o.Broken || p.opts.BreakAfter >= 0 && o.Silent(p.breakAfter(o))):
		if err = o.Break(ctx, store, p.repository.SealAgain); err == nil {
			p.report.Broken = append(p.report.Broken, o.Key)
		}
	default:
		return false, nil
	}
	if failure.Is(err, failure.Conflict) { // its owner renewed it
		return false, nil
	}
	return err == nil, err
}

// hidden reports whether a writer's archive was committed, and others have deleted it in a bucket with Object Lock: a
// tombstone could be created over that.
func (p *pruner) hidden(ctx context.Context, o *lease.Other) (bool, error) {
	path, err := format.ArchivePath(o.Archive)
	if err != nil || !p.repository.Settings().Storage.ObjectLock || !p.vault.on {
		return false, nil
	}
	last, err := repository.LastVersions(ctx, p.vault.Bucket, path)
	v, is := last[path]
	return is && v.Size != int64(len(format.Tombstone)), err
}

// breakAfter is how long a lease was not renewed if it is broken.
func (p *pruner) breakAfter(o *lease.Other) time.Duration {
	if o.Rewriter {
		return min(p.opts.BreakAfter, breakRewriterAfter)
	}
	return p.opts.BreakAfter
}
