package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// makePlan chooses the leader of each region, or refuses what it cannot prove.
func (r *Resolver) makePlan(_ context.Context, s *phase.Scope) error {
	rules := plan.Rules{Replicas: r.cfg.Replicas, Lost: r.cfg.TolerateStores, AheadForSure: r.record.earlyForSure}
	if r.record.early != nil {
		rules.Ahead = r.record.early.Affected
	}
	made, err := plan.Make(r.metas, rules) //nolint:contextcheck // see judge
	if err != nil {
		return err
	}
	if err := r.takeAhead(s, made); err != nil {
		return err
	}
	r.plan, r.metas = made, nil // millions of peers are a GiB
	if r.cfg.FlashAll {
		r.cfg.Marks = nil
	}
	r.verdicts, r.cfg.Marks = newVerdicts(made, r.cfg.Marks), nil
	r.stats = Stats{
		Regions: len(made.Leaders), Peers: made.Peers, Lagging: made.Lagging, Uneven: len(made.Uneven),
		Dropped: len(made.Dropped), Ahead: len(made.Affected), AllocID: made.AllocID,
	}
	s.Note("%d regions with %d peers, %d of them behind their leader", len(made.Leaders), made.Peers, made.Lagging)
	if len(made.Dropped) > 0 {
		s.Warn("%d regions (such as region %s) are covered by newer ones and will have no leader", len(made.Dropped), made.Dropped[0].Region)
	}
	if len(made.Uneven) > 0 {
		s.Warn("the peers of %d regions (such as region %s) disagree about the version: a split or merge fell into the cut of the backup",
			len(made.Uneven), made.Uneven[0])
	}
	return nil
}

// raiseAllocID keeps PD from giving out an id that the data hold already.
func (r *Resolver) raiseAllocID(ctx context.Context, _ *phase.Scope) error {
	id := max(r.plan.AllocID, r.cfg.AllocID)
	r.stats.AllocID = id
	return failure.Annotate(r.pd.RaiseAllocID(ctx, id), "raise alloc id", r.cfg.Cluster.String())
}

// Plan is what the step "plan" made; nil before it.
func (r *Resolver) Plan() *plan.Plan { return r.plan }
