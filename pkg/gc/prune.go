package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/retention"
)

// PruneOptions are what the user chose.
type PruneOptions struct {
	Policy retention.Policy
	// Clusters are the clusters to prune, each separately; empty for all.
	Clusters []cluster.Name
	// Rate is the number of deletions per second; zero is 1.
	Rate float64
	// AllowFull also deletes the newest copy of a volume, after which EC2 makes the next copy in full.
	AllowFull bool
	// DryRun changes nothing: items that would be deleted have the action delete.
	DryRun bool
}

// Prune deletes the backups that the policy does not keep, oldest first, one at a time, as Delete does. Only restorable
// backups count: a damaged one, or one with missing snapshots, neither satisfies a rule nor is deleted. Always kept:
// each cluster's newest good backup, backups that are pinned, in use by a live run, with a locked snapshot, or with
// snapshots in another region, and the newest copy of each volume unless AllowFull. Interrupted removals are finished.
// The report is complete even on an error; a Partial, Denied or Limited one names what is left, and Prune can be called
// again.
func Prune(ctx context.Context, d Deps, o PruneOptions) (*BackupsReport, error) {
	report := &BackupsReport{Backups: []BackupOutcome{}}
	if err := o.Policy.Validate(); err != nil {
		return report, failure.Wrap(err, failure.Usage, "prune", d.Store.URL())
	}
	p := &pruning{Deps: d, opts: o, world: &world{now: time.Now()}, report: report}
	if err := p.world.openStorage(ctx, d); err != nil {
		return report, err
	}
	if err := p.plan(ctx); err != nil {
		return report, err
	}
	if !o.DryRun && report.Count(ActionDelete) > 0 {
		if err := p.world.establish(ctx, d); err != nil {
			return report, err
		}
		report.carryOut(ctx, d, DeleteOptions{Rate: o.Rate, Reason: "pruned: no rule keeps it"})
	}
	return report, report.undeleted()
}

// pruning is one pass over the backups of a storage.
type pruning struct {
	Deps
	opts   PruneOptions
	world  *world
	report *BackupsReport
	newest map[lineage]cluster.BackupID // who has the newest copy of each volume
}

// plan decides for every backup, and changes nothing.
func (p *pruning) plan(ctx context.Context) error {
	if err := p.world.readAll(ctx, p.Deps); err != nil {
		return err
	}
	snapshots, err := p.EBS.AllSnapshots(ctx)
	if err != nil {
		return failure.Annotate(err, "find snapshots", "")
	}
	gone, err := missing(ctx, p.Deps, p.world, snapshots)
	if err != nil {
		return err
	}
	for _, m := range gone {
		p.world.broken[m.Backup] = fmt.Sprintf("%d of its snapshots are gone", len(m.Snapshots))
	}
	p.newest = p.world.copies.newest(p.world.broken)
	p.world.copies.withoutArchived(p.newest, snapshots)
	good := map[source][]retention.Backup{}
	for _, e := range p.world.backups {
		switch {
		case len(p.opts.Clusters) > 0 && !slices.Contains(p.opts.Clusters, e.Cluster):
		case e.State == catalog.StateSealed && p.world.broken[e.ID] == "":
			good[sourceOf(e)] = append(good[sourceOf(e)],
				retention.Backup{ID: e.ID, Created: e.CreatedAt, Tags: e.Tags})
		case e.State == catalog.StateRemoving:
			if err := p.decide(ctx, e, ""); err != nil {
				return err
			}
		default:
			p.add(e, ActionKeep, p.why(e))
		}
	}
	for _, backups := range good {
		for _, decision := range p.opts.Policy.Apply(backups) {
			if err := p.decide(ctx, p.world.backups[decision.ID], strings.Join(decision.Reasons, ", ")); err != nil {
				return err
			}
		}
	}
	p.report.sort()
	return nil
}

// why returns why prune skips a backup that cannot be restored.
func (p *pruning) why(e catalog.Entry) string {
	switch {
	case e.State == catalog.StateUnsealed:
		return "not sealed: its run is active, or tisnap gc removes it"
	default:
		return "cannot be restored (" + p.world.broken[e.ID] + "): remove it with tisnap delete"
	}
}

// decide keeps a backup for the policy's reasons; without one it selects it for deletion, unless something forbids
// that.
func (p *pruning) decide(ctx context.Context, e catalog.Entry, reasons string) error {
	if reasons != "" {
		p.add(e, ActionKeep, reasons)
		return nil
	}
	if pin := p.world.pin(e.ID, e.Run); pin != nil {
		p.add(e, ActionKeep, pin.String())
		return nil
	}
	if why := p.nextFull(e); why != "" {
		p.add(e, ActionKeep, why)
		return nil
	}
	x := &deletion{
		Deps: p.Deps, world: p.world, catalog: catalog.Catalog{Store: p.Store},
		opts: DeleteOptions{Backup: e.ID, Last: true}, // the policy keeps a good one
	}
	err := x.refusal(ctx)
	switch {
	case err == nil && e.State == catalog.StateRemoving:
		p.add(e, ActionDelete, "its removal was interrupted")
	case err == nil:
		p.add(e, ActionDelete, "no rule keeps it")
	case failure.Is(err, failure.Usage): // its snapshots are in another region
		p.add(e, ActionKeep, reason(err))
	case failure.Is(err, failure.Conflict):
		p.add(e, ActionInUse, reason(err))
	default:
		return err
	}
	return nil
}

// reason returns a refusal's bare reason, without the operation.
func reason(err error) string {
	var f *failure.Error
	if errors.As(err, &f) && f.Err != nil {
		return failure.Line(f.Err.Error())
	}
	return failure.Line(err.Error())
}

func (p *pruning) add(e catalog.Entry, a Action, reason string) {
	p.report.Backups = append(p.report.Backups, outcomeOf(e, a, reason))
}
