package backup

import (
	"cmp"
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// preflight changes nothing and finds what could fail later.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if r.opts.ConsistentNow {
		now, err := r.PD.Now(ctx)
		if err != nil {
			return failure.Annotate(err, "take timestamp", r.opts.Cluster.String())
		}
		r.rules.Passes = now
	}
	r.rules.MaxLag = r.opts.MaxLag
	if err := r.checkFree(ctx); err != nil {
		return err
	}
	if err := r.newest(ctx, s); err != nil {
		return err
	}
	if err := r.inspect(ctx, r.opts.ConsistentNow); err != nil {
		return err
	}
	s.Note("cluster %s: TiKV %s, %d stores, %d volumes",
		r.opts.Cluster, r.source.Topology.Version, len(r.source.Topology.Stores), len(r.source.Topology.VolumeIDs()))
	if busy := r.source.Busy; len(busy) > 0 {
		s.Note("%d volumes have as many snapshots in progress as EC2 allows (%s, …): a backup waits for them before it holds the cluster", len(busy), busy[0])
	}
	if err := r.checkTiFlash(s); err != nil {
		return err
	}
	if err := r.checkImports(ctx, s); err != nil {
		return err
	}
	if err := r.checkForeign(ctx); err != nil {
		return err
	}
	versions, err := preflight.RegionVersions(ctx, r.PD, r.opts.Cluster)
	if err != nil {
		return err
	}
	r.regions = versions
	r.announce(s)
	return nil
}

// announce says how long the run should take, and journals it if no earlier process has: the report says how wrong it was.
func (r *run) announce(s *phase.Scope) {
	if r.Announce == nil {
		return
	}
	earlier := r.result.Expected
	expected, text := r.Announce(r.source, earlier)
	if earlier == nil && expected != nil {
		s.Result(journal.ResultExpected, expected)
		r.result.Expected = expected
	}
	if text != "" {
		s.Note("%s", text)
	}
}

func (r *run) checkFree(ctx context.Context) error {
	if r.resumed {
		return nil // an earlier process of the run has taken it, or the claim finds out
	}
	if r.opts.ClusterMeta != nil {
		return r.catalog.CheckFreeForBR(ctx, r.opts.Backup)
	}
	err := r.catalog.CheckFree(ctx, r.opts.Backup)
	if held := runlock.Refusal(ctx, r.Store, r.opts.Cluster); failure.Is(err, failure.Conflict) && held != nil {
		return failure.Join(held, err) // it is that run which has taken the name, or has to be waited for anyway
	}
	return err
}

// inspect finds out what the cluster consists of and whether it can be backed up at this moment.
func (r *run) inspect(ctx context.Context, awaitsTS bool) error {
	src, err := preflight.Backup(ctx, r.Kube, r.PD, r.EBS, r.opts.Cluster,
		preflight.Limits{TS: r.rules, AwaitsTS: awaitsTS, Pending: r.opts.PendingQuota})
	if err != nil {
		return err
	}
	if _, err = r.describeStores(ctx); err != nil {
		return err
	}
	r.source, r.highestTS = src, max(r.highestTS, src.ResolvedTS)
	return nil
}

// newest finds the newest sealed backup of this cluster: a backup ts never lies below an earlier one. A cluster
// of the same name with another PD cluster id is another cluster.
func (r *run) newest(ctx context.Context, s *phase.Scope) error {
	id, err := r.PD.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", r.opts.Cluster.String())
	}
	entries, err := r.catalog.List(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b catalog.Entry) int { return cmp.Compare(b.BackupTS, a.BackupTS) })
	for _, e := range entries {
		if e.State != catalog.StateSealed || e.Cluster != r.opts.Cluster {
			continue
		}
		m, err := r.catalog.Load(ctx, e.ID)
		switch {
		case failure.Is(err, failure.Corrupt), failure.Is(err, failure.NotFound), failure.Is(err, failure.Unready):
			s.Warn("backup %s cannot be compared with: %v", e.ID, err) // damaged, or deleted meanwhile
		case err != nil:
			return err
		case m.Source.ClusterID == id:
			r.rules.NotBelow, r.rules.Newest = m.BackupTS, m.ID
			return nil
		}
	}
	return nil
}

// awaitTS returns when the resolved ts has reached the time of the run's start.
func (r *run) awaitTS(ctx context.Context, s *phase.Scope) error {
	return preflight.AwaitResolvedTS(ctx, r.PD, r.opts.Cluster, r.rules.Passes, r.opts.ConsistentTimeout,
		func(text string) { s.Note("%s", text) })
}
