package backup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// lockTTL is how long a dead run keeps others from the cluster, and how long object storage may be away
// without ending a run. The hold has shorter leases of its own.
const lockTTL = 10 * time.Minute

// preflight changes nothing and finds what could fail later.
func (t *task) preflight(ctx context.Context, s *phase.Scope) error {
	if t.opts.ConsistentNow {
		now, err := t.PD.Now(ctx)
		if err != nil {
			return failure.Annotate(err, "take timestamp", t.opts.Cluster.String())
		}
		t.rules.Passes = now
	}
	t.rules.MaxLag = t.opts.MaxLag
	if err := t.catalog.CheckFree(ctx, t.opts.Backup); err != nil {
		return err
	}
	if err := t.newest(ctx, s); err != nil {
		return err
	}
	if err := t.inspect(ctx, t.opts.ConsistentNow); err != nil {
		return err
	}
	s.Note("cluster %s: TiKV %s, %d stores, %d volumes",
		t.opts.Cluster, t.source.Topology.Version, len(t.source.Topology.Stores), len(t.source.Topology.VolumeIDs()))
	return t.lookForImports(ctx, s)
}

// inspect finds out what the cluster consists of and whether it can be backed up at this moment.
func (t *task) inspect(ctx context.Context, awaitsTS bool) error {
	src, err := preflight.Backup(ctx, t.Kube, t.PD, t.EBS, t.opts.Cluster,
		preflight.Limits{TS: t.rules, AwaitsTS: awaitsTS, Pending: t.opts.PendingQuota})
	if err != nil {
		return err
	}
	if _, err = t.stores(ctx); err != nil {
		return err
	}
	t.source = src
	return nil
}

// newest finds the newest sealed backup of this cluster: a backup ts never lies below an earlier one. A cluster
// of the same name with another PD cluster id is another cluster.
func (t *task) newest(ctx context.Context, s *phase.Scope) error {
	id, err := t.PD.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", t.opts.Cluster.String())
	}
	entries, err := t.catalog.List(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b catalog.Entry) int { return cmp.Compare(b.BackupTS, a.BackupTS) })
	for _, e := range entries {
		if e.State != catalog.StateSealed || e.Cluster != t.opts.Cluster {
			continue
		}
		m, err := t.catalog.Load(ctx, e.ID)
		switch {
		case failure.Is(err, failure.Corrupt), failure.Is(err, failure.NotFound), failure.Is(err, failure.Unready):
			s.Warn("backup %s cannot be compared with: %v", e.ID, err) // damaged, or deleted meanwhile
		case err != nil:
			return err
		case m.Source.ClusterID == id:
			t.rules.NotBelow, t.rules.Newest = m.BackupTS, m.ID
			return nil
		}
	}
	return nil
}

// lookForImports refuses a running import, or warns of it, as the user chose.
func (t *task) lookForImports(ctx context.Context, s *phase.Scope) error {
	if t.opts.OnImport == preflight.WaitOnImport {
		return nil // a step of its own
	}
	running, err := preflight.RunningImports(ctx, t.PD, t.TiKV, t.source.Topology.Stores)
	switch {
	case err != nil:
		return err
	case len(running) == 0:
		return nil
	case t.opts.OnImport == preflight.PauseOnImport:
		s.Warn("an import runs, and is refused files during the hold: %s", strings.Join(running, "; "))
		return nil
	}
	return preflight.RefuseImports(t.opts.Cluster, running)
}

// lookAtImports is how often a running import is looked at.
const lookAtImports = 5 * time.Second

// awaitImports returns when no import runs.
func (t *task) awaitImports(ctx context.Context, s *phase.Scope) error {
	waiting, cancel := context.WithTimeout(ctx, t.opts.ImportTimeout)
	defer cancel()
	for told := ""; ; {
		running, err := preflight.RunningImports(ctx, t.PD, t.TiKV, t.source.Topology.Stores)
		if err != nil || len(running) == 0 {
			return err
		}
		if now := strings.Join(running, "; "); now != told {
			told = now
			s.Note("waiting until an import has ended: %s", now)
		}
		if wait.For(waiting, min(lookAtImports, t.opts.ImportTimeout/10)) == nil {
			continue
		}
		if ctx.Err() != nil {
			return failure.Annotate(context.Cause(ctx), "wait for imports", t.opts.Cluster.String())
		}
		return failure.New(failure.Unready, "wait for imports", t.opts.Cluster.String(), "after %s an import still runs: %s",
			t.opts.ImportTimeout, told).WithHint("raise --import-timeout, or choose --on-import=pause")
	}
}

// awaitTS returns when the resolved ts has reached the time of the run's start.
func (t *task) awaitTS(ctx context.Context, s *phase.Scope) error {
	return preflight.AwaitResolvedTS(ctx, t.PD, t.opts.Cluster, t.rules.Passes, t.opts.ConsistentTimeout,
		func(text string) { s.Note("%s", text) })
}

// takeLock admits one run at a time to the cluster. A lock that is lost ends the run.
func (t *task) takeLock(ctx context.Context, _ *phase.Scope) error {
	var err error
	t.lock, err = runlock.Take(ctx, t.Store, t.opts.Cluster, t.opts.Owner, lockTTL, func(reason error) { t.cancel(reason) })
	return err
}

// unlock ends a run that has done its work. A lock that cannot be released frees itself, and does not make
// the work undone.
func (t *task) unlock(ctx context.Context, s *phase.Scope) error {
	if err := t.dropLock(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", lockTTL, err)
	}
	return nil
}

func (t *task) dropLock(ctx context.Context, _ *phase.Scope) error {
	return t.lock.Release(ctx)
}

// claim takes the backup's id in the storage.
func (t *task) claim(ctx context.Context, _ *phase.Scope) error {
	return t.catalog.Claim(ctx, catalog.Claim{
		ID: t.opts.Backup, Run: t.opts.Run, Cluster: t.opts.Cluster, ClaimedAt: t.result.Started,
	})
}
