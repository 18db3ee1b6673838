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
	// Clusters are those whose backups are pruned, each by itself; empty is all.
	Clusters []cluster.Name
	// Rate is how many deletions are asked for in a second; zero is 1.
	Rate float64
	// DryRun changes nothing: what would be deleted has the action delete.
	DryRun bool
}

// Prune deletes the backups that the policy does not keep, one after the other, the oldest first, each as Delete does.
// Only backups that can be restored count: one that is damaged, or whose snapshots are gone, neither uses up a rule nor
// is deleted. Kept whatever the policy says: the newest good backup of each cluster, one that a run that is alive uses,
// one with a locked snapshot, one whose snapshots are in another region. A removal that was interrupted is finished.
// The report is complete also on an error; one of kind Partial (or Denied, Limited) names what is still there, and
// Prune can be called again.
func Prune(ctx context.Context, d Deps, o PruneOptions) (*PruneReport, error) {
	report := &PruneReport{Backups: []PrunedBackup{}}
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
		p.carryOut(ctx)
	}
	return report, report.undeleted()
}

// pruning is one pass over the backups of a storage.
type pruning struct {
	Deps
	opts   PruneOptions
	world  *world
	report *PruneReport
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

// why says why a backup that cannot be restored is not looked after here.
func (p *pruning) why(e catalog.Entry) string {
	switch {
	case e.State == catalog.StateUnsealed:
		return "not sealed: its run continues, or tisnap gc removes it"
	default:
		return "cannot be restored (" + p.world.broken[e.ID] + "): remove it with tisnap delete"
	}
}

// decide keeps a backup for the policy's reasons; without one it is to be deleted, if nothing forbids it.
func (p *pruning) decide(ctx context.Context, e catalog.Entry, reasons string) error {
	if reasons != "" {
		p.add(e, ActionKeep, reasons)
		return nil
	}
	x := &deletion{
		Deps: p.Deps, world: p.world, catalog: catalog.Catalog{Store: p.Store},
		opts: DeleteOptions{Backup: e.ID, Last: true}, // that a good one stays is the policy's
	}
	err := x.pick(ctx)
	if err == nil {
		var found []Item
		if found, err = x.find(ctx); err == nil {
			err = x.check(ctx, found)
		}
	}
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

// reason is the bare reason of a refusal, without what was being done.
func reason(err error) string {
	var f *failure.Error
	if errors.As(err, &f) && f.Err != nil {
		return failure.Line(f.Err.Error())
	}
	return failure.Line(err.Error())
}

func (p *pruning) add(e catalog.Entry, a Action, reason string) {
	p.report.Backups = append(p.report.Backups, PrunedBackup{
		ID: e.ID, Cluster: name(e.Cluster), ClusterID: e.ClusterID, CreatedAt: e.CreatedAt, Tags: e.Tags,
		SizeGiB: e.SizeGiB, Action: a, Reason: reason,
	})
}

// carryOut deletes, each after all checks were made again. A backup that came into use meanwhile is kept.
func (p *pruning) carryOut(ctx context.Context) {
	for i := len(p.report.Backups) - 1; i >= 0; i-- {
		b := &p.report.Backups[i]
		if b.Action != ActionDelete {
			continue
		}
		if err := ctx.Err(); err != nil {
			b.left(failure.Annotate(context.Cause(ctx), "delete backup", string(b.ID)))
			continue
		}
		done, err := Delete(ctx, p.Deps,
			DeleteOptions{Backup: b.ID, Rate: p.opts.Rate, Reason: "pruned: no rule keeps it"})
		b.Snapshots = deletedSnapshots(done)
		switch {
		case err == nil:
			b.Action = ActionDeleted
		case failure.Is(err, failure.Conflict):
			b.Action, b.Reason = ActionInUse, reason(err)
		default:
			b.left(err)
		}
	}
}

func deletedSnapshots(r *Report) int {
	n := 0
	for _, i := range r.Items {
		if i.Kind == KindSnapshot && i.Action == ActionDeleted {
			n++
		}
	}
	return n
}
