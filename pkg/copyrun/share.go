package copyrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
)

type sourceID = cluster.SnapshotID

// sharers is how many snapshots are shared at the same time.
const sharers = 8

// takeLease keeps the backup from being deleted while it is copied, and reads it again, since from here on the lease
// protects it. A source that this account cannot write to is copied without.
func (r *run) takeLease(ctx context.Context, s *phase.Scope) error {
	if m, err := r.to.Load(ctx, r.opts.Backup); err == nil && m.Run == r.opts.Run {
		r.earlier.sealed = true // by a process that died before it could record that
	}
	if r.earlier.sealed {
		return nil
	}
	owner := r.opts.Owner
	owner.Backup = r.opts.Backup
	name := journal.UseLock(r.opts.Cluster, r.runner.StorageID())
	lease, err := runlock.Take(ctx, r.From, name, owner, runner.LockTTL,
		runlock.Notify{
			Wait: r.opts.LockWait,
			Lost: func(reason error) {
				r.Log.Warn("the backup may be deleted while it is copied: " + reason.Error())
			},
			Watching: func(held *runlock.Record) { s.Note("%s", held.Watching()) },
		})
	if failure.Is(err, failure.Denied) {
		s.Warn("%s cannot be written to, so that the backup may be deleted while it is copied: %v", r.From.URL(), err)
	} else if err != nil {
		return failure.Annotate(err, "take lease on backup", string(r.opts.Backup))
	}
	r.lease = lease
	if err := r.load(ctx); err != nil {
		return err
	}
	return r.checkSnapshots(ctx)
}

// share lets the target's account read the snapshots, if it is another one. Which of them were not shared before is
// journalled first. A resumed run shares these again, as that may have been undone since, unless the copy is sealed.
func (r *run) share(ctx context.Context, s *phase.Scope) error {
	r.progress.shared = r.earlier.Shared
	r.noteShared()
	if r.earlier.sealed || !r.found.sharing {
		return nil
	}
	if !r.earlier.Shares {
		ids, err := r.unshared(ctx)
		if err != nil {
			return err
		}
		if err := s.Intent(ctx, journal.IntentShare, ids); err != nil {
			return err
		}
		r.progress.shared = ids
		r.noteShared()
	}
	err := parallel.Each(ctx, sharers, r.progress.shared, func(ctx context.Context, _ int, id sourceID) error {
		return r.Source.ShareSnapshot(ctx, id, []string{r.found.account})
	})
	if failure.Is(err, failure.Conflict) || failure.Is(err, failure.Denied) { // nothing can be copied
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, r.unshare(ctx, s))
	}
	return failure.Annotate(err, "share snapshots with account", r.found.account)
}

// unshared lists the snapshots that the target's account may not read yet.
func (r *run) unshared(ctx context.Context) ([]sourceID, error) {
	var mu sync.Mutex
	ids, all := []sourceID{}, r.found.manifest.SnapshotIDs()
	err := parallel.Each(ctx, sharers, all, func(ctx context.Context, _ int, id sourceID) error {
		with, err := r.Source.SharedWith(ctx, id)
		if err != nil || slices.Contains(with, r.found.account) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return nil
	})
	slices.Sort(ids)
	return ids, err
}

const remainsShared = "shared"

func (r *run) noteShared() {
	n, account := len(r.progress.shared), r.found.account
	if n == 0 {
		return
	}
	r.Remains.Set(remainsShared, func() string {
		return fmt.Sprintf("account %s may read %d snapshots of the source until the copy is done", account, n)
	})
}

// unshare ends what share did. A snapshot that is gone is not shared.
func (r *run) unshare(ctx context.Context, _ *phase.Scope) error {
	if len(r.progress.shared) == 0 {
		return nil
	}
	if r.found.account == "" { // the copy was sealed by an earlier process
		var err error
		if r.found.account, err = r.Target.AccountID(ctx); err != nil {
			return failure.Annotate(err, "find the target's account", r.Target.Region())
		}
	}
	err := parallel.Each(ctx, sharers, r.progress.shared, func(ctx context.Context, _ int, id sourceID) error {
		return r.Source.UnshareSnapshot(ctx, id, []string{r.found.account})
	})
	if err == nil {
		r.progress.shared = nil
		r.Remains.Clear(remainsShared)
	}
	return failure.Annotate(err, "end the sharing of snapshots with account", r.found.account)
}
