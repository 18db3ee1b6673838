package gc

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// oldReports lists the reports that were last written before a time, by the storage's clock, and whose backup is gone.
// That of a backup that is still there stays as long as the backup does.
func oldReports(ctx context.Context, d Deps, w *world, before time.Time) ([]Item, error) {
	objects, err := d.Store.List(ctx, manifest.ReportsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list reports", d.Store.URL())
	}
	var out []Item
	for _, o := range objects {
		backup, run, ok := manifest.SplitReportKey(o.Key)
		if _, there := w.backups[backup]; !ok || there || !o.Modified.Before(before) {
			continue
		}
		out = append(out, Item{Kind: KindReport, ID: string(run), Run: run, Backup: backup}.
			decided(ActionDelete, "its backup is gone, and it was written before %s",
				before.UTC().Format(time.DateOnly)))
	}
	return out, nil
}

// removeReports deletes the reports selected in the report.
func (s *sweep) removeReports(ctx context.Context, r *Report) {
	for i := range r.Items {
		if it := &r.Items[i]; it.Kind == KindReport && it.Action == ActionDelete {
			it.done(s.Store.Delete(ctx, manifest.ReportKey(it.Backup, it.Run)))
		}
	}
}
