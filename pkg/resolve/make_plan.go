package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// makePlan chooses the leader of each region, or refuses what it cannot prove.
func (r *Resolver) makePlan(_ context.Context, s *phase.Scope) error {
	rules := plan.Rules{Replicas: r.cfg.Replicas, Lost: r.cfg.TolerateStores, AheadForSure: r.earlyForSure}
	if r.early != nil {
		rules.Ahead = r.early.Affected
	}
	made, err := plan.Make(r.metas, rules) //nolint:contextcheck // see judge
	if err != nil {
		return err
	}
	if r.early != nil {
		r.early = &EarlyApply{Affected: made.Affected}
	}
	if len(made.Affected) > 0 {
		return r.refuseAhead(made.Affected)
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

// refuseAhead is Corrupt: a replica whose data are ahead of the log skips the log's entries up to there, the flashback's own
// included, and serves what is above the backup ts if it is elected.
func (r *Resolver) refuseAhead(affected []plan.Ahead) error {
	lines := make([]string, len(affected))
	for i, a := range affected {
		lines[i] = a.String()
	}
	return failure.New(failure.Corrupt, "plan recovery", r.cfg.Cluster.String(),
		"%d replicas have data that no log of the backup has, and would keep them whatever is flashed back: %s", len(affected), failure.List(lines)).
		WithHint("restore another backup; TiKV applies early since 8.2: back up with raftstore.max-apply-unpersisted-log-limit at 0")
}

// raiseAllocID keeps PD from giving out an id that the data hold already.
func (r *Resolver) raiseAllocID(ctx context.Context, _ *phase.Scope) error {
	id := max(r.plan.AllocID, r.cfg.AllocID)
	r.stats.AllocID = id
	return failure.Annotate(r.pd.RaiseAllocID(ctx, id), "raise alloc id", r.cfg.Cluster.String())
}

// Plan is what the step "plan" made; nil before it.
func (r *Resolver) Plan() *plan.Plan { return r.plan }
