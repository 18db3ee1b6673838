package gc

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// DeleteEach removes the named backups as Delete does, oldest first, one at a time; Backup and Run of o are not used.
// Every check of every backup comes before the first change. An unknown name is NotFound, and nothing is deleted. A
// backup that must stay does not keep the others; the report and the error have the reason for each. Backups that are
// together all restorable ones of a cluster stay, unless Last.
func DeleteEach(ctx context.Context, d Deps, ids []cluster.BackupID, o DeleteOptions) (*BackupsReport, error) {
	report := &BackupsReport{Backups: []BackupOutcome{}}
	w := &world{now: time.Now()}
	if err := w.openStorage(ctx, d); err != nil {
		return report, err
	}
	if err := w.readAll(ctx, d); err != nil {
		return report, err
	}
	leaving := map[cluster.BackupID]bool{}
	var unknown []error
	for _, id := range ids {
		leaving[id] = true
		x := &deletion{Deps: d, world: w, opts: DeleteOptions{Backup: id}}
		if _, there := w.backups[id]; !there {
			unknown = append(unknown, NothingOf(id, x.near()))
		}
	}
	if len(unknown) > 0 {
		return report, failure.Join(unknown...)
	}
	for id := range leaving {
		x := &deletion{Deps: d, world: w, catalog: catalog.Catalog{Store: d.Store}, leaving: leaving, opts: o}
		x.opts.Backup = id
		b := outcomeOf(w.backups[id], ActionDelete, "asked for")
		if err := x.refusal(ctx); err != nil {
			b.refused(err)
		}
		report.Backups = append(report.Backups, b)
	}
	report.sort()
	if !o.DryRun && report.Count(ActionDelete) > 0 {
		report.carryOut(ctx, d, o)
	}
	return report, report.refusals()
}

// refusal returns why the backup cannot be deleted; nil if it can.
func (x *deletion) refusal(ctx context.Context) error {
	if err := x.pick(ctx); err != nil {
		return err
	}
	found, err := x.find(ctx)
	if err != nil {
		return err
	}
	return x.check(ctx, found)
}
