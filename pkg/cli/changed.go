package cli

import (
	"context"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// changedSince compares the marks of the backup with those of the previous one: where each region's raft log ended. It
// is nil without a previous backup or its marks, which a report can do without.
func changedSince(ctx context.Context, store objstore.Store, runs []history.Run, r *backup.Result) *report.Changed {
	if r.Manifest == nil || r.Marks.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, expectDeadline)
	defer cancel()
	c := catalog.Catalog{Store: store}
	m, err := backupBefore(ctx, c, runs, r)
	if err != nil || m == nil || m.Marks == nil || m.Source.ClusterID != r.Manifest.Source.ClusterID {
		return nil
	}
	earlier, err := c.Marks(ctx, m)
	if err != nil {
		return nil
	}
	changed := &report.Changed{Since: m.ID, Regions: r.Regions - r.Marks.Same(earlier), Of: r.Regions}
	changed.DataBytes = int64(float64(r.DataBytes) * float64(changed.Regions) / float64(changed.Of))
	return changed
}

// backupBefore returns the cluster's latest backup before this one that is not deleted; nil if there is none.
func backupBefore(
	ctx context.Context, c catalog.Catalog, runs []history.Run, r *backup.Result,
) (*manifest.Manifest, error) {
	for i := len(runs) - 1; i >= 0; i-- {
		b := &runs[i]
		if b.Operation != report.Backup || b.Outcome != phase.Done || b.Cluster != r.Manifest.Source.Cluster ||
			b.Backup == r.Manifest.ID || !b.Started.Before(r.Started) {
			continue
		}
		if m, err := c.Unsealed(ctx, b.Backup); !failure.Is(err, failure.NotFound) {
			return m, err
		}
	}
	return nil, nil
}
