package backup

import (
	"cmp"
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// source discovers the cluster and checks whether it can be backed up.
type source struct {
	kube kube.Clusters
	pd   interface {
		preflight.PD
		pd.Scheduling
		pd.Imports
	}
	tikv tikv.Holder
	ebs  preflight.EBS
	opts Options

	clusterID         uint64 // PD's: many Kubernetes clusters use the same names
	*preflight.Source        // the newest; nil before
	rules             preflight.TSRules
	regions           map[cluster.RegionID]uint64 // versions, as of preflight
	resolved          cluster.TS                  // the highest resolved ts seen
	warnings          []string                    // that need attention although the backup succeeds
}

// adopt continues with the cluster as an earlier process of the run found it.
func (o *source) adopt(found *preflight.Source) { o.Source = found }

// setRules sets the rules for the backup ts, except for earlier backups: with ConsistentNow it includes everything
// committed until now.
func (o *source) setRules(ctx context.Context) error {
	if o.opts.ConsistentNow {
		now, err := o.pd.Now(ctx)
		if err != nil {
			return failure.Annotate(err, "take timestamp", o.opts.Cluster.String())
		}
		o.rules.Passes = now
	}
	o.rules.MaxLag = o.opts.MaxLag
	return nil
}

// describe discovers the cluster and reports it.
func (o *source) describe(ctx context.Context, s *phase.Scope) error {
	if err := o.inspect(ctx, o.opts.ConsistentNow); err != nil {
		return err
	}
	s.Note("cluster %s: TiKV %s, %d stores, %d volumes",
		o.opts.Cluster, o.Topology.Version, len(o.Topology.Stores), len(o.Topology.VolumeIDs()))
	if len(o.Busy) > 0 {
		s.Note("%d volumes have as many snapshots in progress as EC2 allows (%s, …): "+
			"a backup waits for them before it holds the cluster", len(o.Busy), o.Busy[0])
	}
	return nil
}

// checkKeys refuses a volume whose KMS key no longer exists, as nothing could read its snapshot. It warns of a key that
// is not enabled now.
func (o *source) checkKeys(ctx context.Context, s *phase.Scope) error {
	var ids []string
	for _, st := range o.Topology.Stores {
		for _, v := range st.Volumes {
			ids = append(ids, v.KMSKey)
		}
	}
	for _, key := range preflight.DescribeKeys(ctx, o.ebs, ids) {
		switch {
		case key.Missing:
			return key.Refusal()
		case !key.Known:
			s.Note("KMS key %s could not be checked: %s", key.Name, key.State)
		case !key.Enabled:
			s.Warn("no volume can be restored while KMS key %s is unusable: %s; %s", key.Name, key.State, key.Do)
		}
	}
	return nil
}

// readVersions records the regions' versions, which show the regions that change before the hold.
func (o *source) readVersions(ctx context.Context) (err error) {
	o.regions, err = preflight.RegionVersions(ctx, o.pd, o.opts.Cluster)
	return err
}

// checkFree returns a Conflict unless the backup's name, or TiDB Operator's prefix, is free.
func (o *source) checkFree(ctx context.Context, in catalog.Catalog) error {
	if o.opts.ClusterMeta != nil {
		return in.CheckFreeForBR(ctx, o.opts.Backup)
	}
	err := in.CheckFree(ctx, o.opts.Backup)
	if held := runlock.Refusal(ctx, in.Store, o.opts.Cluster); failure.Is(err, failure.Conflict) && held != nil {
		return failure.Join(held, err) // that run has reserved the name, or must be waited for anyway
	}
	return err
}

// inspect discovers the cluster and checks whether it can be backed up now.
func (o *source) inspect(ctx context.Context, awaitsTS bool) error {
	src, err := preflight.Backup(ctx, o.kube, o.pd, o.ebs, o.opts.Cluster,
		preflight.Limits{TS: o.rules, AwaitsTS: awaitsTS, Pending: o.opts.PendingQuota})
	if err != nil {
		return err
	}
	if _, err = o.describeStores(ctx); err != nil {
		return err
	}
	o.Source, o.resolved = src, max(o.resolved, src.ResolvedTS)
	return nil
}

// newest finds this cluster's newest sealed backup: a backup ts must not be below an earlier one. A cluster of the same
// name with another PD cluster id is another cluster.
func (o *source) newest(ctx context.Context, s *phase.Scope, in catalog.Catalog) error {
	id, err := o.pd.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", o.opts.Cluster.String())
	}
	entries, err := in.List(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b catalog.Entry) int { return cmp.Compare(b.BackupTS, a.BackupTS) })
	for _, e := range entries {
		if e.State != catalog.StateSealed || e.Cluster != o.opts.Cluster {
			continue
		}
		m, err := in.Load(ctx, e.ID)
		switch {
		case failure.Is(err, failure.Corrupt), failure.Is(err, failure.NotFound), failure.Is(err, failure.Unready):
			s.Warn("backup %s cannot be compared with: %v", e.ID, err) // damaged or deleted meanwhile
		case err != nil:
			return err
		case m.Source.ClusterID == id:
			o.rules.NotBelow, o.rules.Newest = m.BackupTS, m.ID
			return nil
		}
	}
	return nil
}

// awaitTS waits until the resolved ts has reached the time of the run's start.
func (o *source) awaitTS(ctx context.Context, s *phase.Scope) error {
	return preflight.AwaitResolvedTS(ctx, o.pd, o.opts.Cluster, o.rules.Passes, o.opts.ConsistentTimeout,
		func(text string) { s.Note("%s", text) })
}

// checkTiFlash warns of what becomes of TiFlash stores, or refuses them.
func (o *source) checkTiFlash(s *phase.Scope) error {
	warning, err := preflight.CheckTiFlash(o.opts.TiFlash, o.Topology.TiFlashStores, o.opts.Cluster.String())
	if warning != "" {
		s.Warn("%s", warning)
		o.warnings = []string{warning}
	}
	return err
}
