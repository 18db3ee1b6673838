package lockset

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Options are what the user chose.
type Options struct {
	Backup cluster.BackupID
	// Mode is ebs.LockGovernance or ebs.LockCompliance.
	Mode    string
	Until   time.Time
	CoolOff time.Duration // of new locks in compliance mode
	// DryRun checks, and changes nothing.
	DryRun bool
}

func (o Options) request(id cluster.SnapshotID) ebs.LockRequest {
	return ebs.LockRequest{Snapshot: id, Mode: o.Mode, Until: o.Until, CoolOff: o.CoolOff}
}

// Lock locks all snapshots of a sealed backup until one date. Those that are locked for at least as long, in the mode,
// stay as they are. All checks come before the first change: a snapshot that is missing, or whose lock the request
// would make weaker or shorter, refuses the whole set. Then every snapshot is tried, whatever fails; the report is
// complete even on an error. A Partial error names what is not locked: call it again. A backup that is deleted while
// its snapshots are locked is a Conflict. In a bucket with Object Lock the manifest, the marks and the seal are kept
// for as long, too.
func Lock(ctx context.Context, e EBS, c catalog.Catalog, o Options) (*Report, error) {
	m, err := c.Load(ctx, o.Backup)
	if err != nil {
		return nil, err
	}
	r, err := Read(ctx, e, m)
	if err != nil {
		return nil, err
	}
	if err := r.plan(o); err != nil {
		return r, err
	}
	if o.DryRun {
		r.Objects, err = retain(ctx, c.Store, m, o)
		return r, err
	}
	r.each(ctx, ActionLock, func(ctx context.Context, it *Item) error {
		made, err := e.LockSnapshot(ctx, o.request(it.Snapshot))
		if err == nil {
			it.Action = ActionLocked
			it.is(made)
		}
		return err
	})
	if err := r.failures("lock backup", m.ID, ActionLocked); err != nil {
		return r, err
	}
	now, err := c.Load(ctx, o.Backup) // a deletion may have begun before the first lock
	if err == nil && now.Run == m.Run {
		r.Objects, err = retain(ctx, c.Store, m, o)
		return r, err
	}
	return r, failure.New(failure.Conflict, "lock backup", string(m.ID),
		"it has been deleted meanwhile, at least in part").
		WithHint("its locked snapshots stay: see tisnap gc --dry-run; tisnap unlock %s removes the locks", m.ID)
}

// plan decides about each snapshot; its error refuses the set.
func (r *Report) plan(o Options) error {
	var refused []error
	for i := range r.Items {
		it := &r.Items[i]
		if it.Action == ActionMissing {
			refused = append(refused, failure.New(failure.Corrupt, "lock snapshot", string(it.Snapshot), "it is gone").
				WithHint("lock another backup: this one cannot be restored"))
			continue
		}
		lock := ebs.SnapshotLock{}
		if it.Mode != "" {
			lock = ebs.SnapshotLock{Snapshot: it.Snapshot, Mode: it.Mode, ExpiresAt: it.ExpiresAt}
		}
		enough, err := lock.Covers(o.request(it.Snapshot))
		switch {
		case err != nil:
			refused = append(refused, err)
		case !enough:
			it.Action = ActionLock
			r.Final = r.Final || o.Mode == ebs.LockCompliance && (o.CoolOff == 0 || it.Mode == ebs.LockCompliance)
		}
	}
	return failure.Join(refused...)
}

// Unlock removes the locks of a backup's snapshots, also of one that is being deleted. All checks come before the first
// change: a lock in compliance mode that has cooled off refuses the whole set, since it cannot be removed. The report
// is complete even on an error; a Partial one names what is still locked: call it again. What has no lock succeeds.
func Unlock(ctx context.Context, e EBS, c catalog.Catalog, id cluster.BackupID, dryRun bool) (*Report, error) {
	m, err := recorded(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r, err := Read(ctx, e, m)
	if err != nil {
		return nil, err
	}
	var until time.Time
	n := 0
	for i := range r.Items {
		switch it := &r.Items[i]; it.Mode {
		case "":
		case ebs.LockCompliance:
			if n++; it.ExpiresAt.After(until) {
				until = it.ExpiresAt
			}
		default:
			it.Action = ActionUnlock
		}
	}
	if n > 0 {
		return r, failure.New(failure.Conflict, "unlock backup", string(id),
			"%d of %d snapshots are locked in compliance mode, until %s", n, len(r.Items),
			until.UTC().Format(time.RFC3339)).
			WithHint("no one can remove such a lock: wait until it expires")
	}
	if dryRun {
		return r, nil
	}
	r.each(ctx, ActionUnlock, func(ctx context.Context, it *Item) error {
		err := e.UnlockSnapshot(ctx, it.Snapshot)
		if err == nil {
			it.Action = ActionUnlocked
			it.is(ebs.SnapshotLock{})
		}
		return err
	})
	return r, r.failures("unlock backup", m.ID, ActionUnlocked)
}

// recorded is the backup's manifest, also of one that is being deleted.
func recorded(ctx context.Context, c catalog.Catalog, id cluster.BackupID) (*manifest.Manifest, error) {
	m, err := c.Load(ctx, id)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Unready) {
		if left, readErr := c.Unsealed(ctx, id); readErr == nil {
			return left, nil
		}
	}
	return m, err
}
