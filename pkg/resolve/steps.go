package resolve

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// collect reads the metas of all stores concurrently, each as soon as PD lists it. The stores in PD must be exactly
// those of the manifest, and none may have restarted since it was read.
func (r *Resolver) collect(ctx context.Context, s *phase.Scope) (err error) {
	r.stores = newStoreList(r.cfg, r.pd)
	g := newGathering(r.cfg, r.tikv, r.stores, r.questions.asked)
	r.questions.gathering.Store(true)
	defer r.questions.gathering.Store(false)
	r.metas, err = g.run(ctx, s)
	return err
}

// Without reports, to another step while collect runs, whether a plan without the stores is possible. The answer is
// unknown before and after collect, and if ctx ends.
func (r *Resolver) Without(ctx context.Context, late []cluster.StoreID) Verdict {
	return r.questions.ask(ctx, late)
}

// findAhead finds the replicas that are ahead of their raft logs, unless the backup has ruled them out. This must be
// done before the first RecoverRegion: a leader replicates its log within milliseconds. A run that resumes one that may
// have sent it uses that one's record.
func (r *Resolver) findAhead(ctx context.Context, s *phase.Scope) error {
	if r.cfg.NoneAhead {
		s.Note("not looked for: the backup has ruled out that a replica is ahead of its raft log")
		return nil
	}
	found, err := r.foundBefore(ctx)
	if err != nil {
		return err
	}
	if found != nil {
		r.record.knowEarlyForSure(found)
		s.Note("%d replicas that are ahead of their logs are known from the run before", len(found.Affected))
		return nil
	}
	reader := &aheadReader{cfg: r.cfg, tikv: r.tikv, stores: r.stores}
	ahead, err := reader.read(ctx, s, r.metas.Peers())
	if err != nil {
		return failure.Annotate(err, "look for replicas ahead of their logs", r.cfg.Cluster.String())
	}
	r.record.knowEarly(&EarlyApply{Affected: ahead})
	s.Result(journal.ResultAhead, r.record.early)
	return nil
}

// foundBefore returns what an earlier run found about replicas that are ahead, if PD cannot have copied them since.
func (r *Resolver) foundBefore(ctx context.Context) (*EarlyApply, error) {
	found, err := r.record.foundBefore(ctx)
	if err != nil || !found.present() {
		return found, err
	}
	return found, r.freezer.CheckKept(ctx, len(found.Affected))
}

// makePlan chooses each region's leader, or refuses what it cannot prove.
func (r *Resolver) makePlan(ctx context.Context, s *phase.Scope) error {
	rules := plan.Rules{Replicas: r.cfg.Replicas, Lost: r.cfg.TolerateStores, AheadForSure: r.record.earlyForSure}
	if r.record.early != nil {
		rules.Ahead = r.record.early.Affected
	}
	made, err := plan.Make(ctx, r.metas, rules)
	if err != nil {
		return err
	}
	early, err := takeAhead(s, r.cfg, made, r.record.early)
	if err != nil {
		return err
	}
	r.record.knowEarly(early)
	r.plan, r.metas = made, nil // millions of peers take a GiB
	r.stats = Stats{
		Regions: len(made.Leaders), Peers: made.Peers, Lagging: made.Lagging, Uneven: len(made.Uneven),
		Dropped: len(made.Dropped), Ahead: len(made.Affected), AllocID: made.AllocID,
	}
	s.Note("%d regions with %d peers, %d of them behind their leader", len(made.Leaders), made.Peers, made.Lagging)
	if len(made.Dropped) > 0 {
		s.Warn("%d regions (such as region %s) are covered by newer ones and will have no leader", len(made.Dropped),
			made.Dropped[0].Region)
	}
	if len(made.Uneven) > 0 {
		s.Warn("the peers of %d regions (such as region %s) disagree about the version: "+
			"a split or merge fell into the cut of the backup",
			len(made.Uneven), made.Uneven[0])
	}
	return nil
}

// raiseAllocID keeps PD from allocating ids that are already in the data.
func (r *Resolver) raiseAllocID(ctx context.Context, _ *phase.Scope) error {
	id := max(r.plan.AllocID, r.cfg.AllocID)
	r.stats.raised(id)
	return failure.Annotate(r.pd.RaiseAllocID(ctx, id), "raise alloc id", r.cfg.Cluster.String())
}

// Plan returns the plan; nil before the step "plan".
func (r *Resolver) Plan() *plan.Plan { return r.plan }

// freeze lowers PD's limits, reads them back, and renews them, the pauses of its schedulers and the GC hold until thaw:
// the flashback of a large cluster takes longer than one TTL.
func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	return r.freezer.Freeze(ctx, r.record.early.present())
}

// stamp takes the flashback's timestamps, or those of the run that this one resumes, and saves them before anything is
// prepared with them.
func (r *Resolver) stamp(ctx context.Context, s *phase.Scope) error {
	if err := r.record.stamp(ctx, s); err != nil {
		return err
	}
	return r.freezer.HoldGC(ctx)
}

// makeLeaders makes the planned leaders lead, and waits until PD knows the planned leader of every region. It only
// waits for RecoverRegion's answers with Config.WaitApply. That is safe:
//   - A leader was elected by a majority against their own logs, so it has every committed entry.
//   - A prepare is an entry of the leader's own term, after all that is in its log. Its answer means that it is
//     applied on the leader, and so is all before it; entries of older terms are committed with it. A flashback
//     comes after it and sees all of that.
//   - The other peers apply the same log in the same order, now or after the restart out of recovery mode.
//     Whoever leads later has the prepare and the flashback in its log, because a majority has.
//   - RecoverRegion, still at work, only checks its regions each 10 s and lets those that do not lead stand
//     for election; a leader that stands is left as it is.
func (r *Resolver) makeLeaders(ctx context.Context, s *phase.Scope) (err error) {
	if r.recovery, err = startRecovery(ctx, r.cfg, r.pd, r.tikv, r.stores, r.plan); err != nil {
		return err
	}
	set := r.cfg.Marks
	if r.cfg.FlashAll {
		set = nil
	}
	known := newRegionStates(r.plan, set)
	leads := &leading{cfg: r.cfg, pd: r.pd, plan: r.plan, states: known, calls: r.recovery}
	ctx, stop := r.bounded(ctx, "elect leaders", leadersBase, leadersEach)
	defer stop()
	regions, err := leads.awaitLeaders(ctx, s)
	if err != nil {
		return err
	}
	if regions, err = leads.handOver(ctx, s, regions); err != nil {
		return err
	}
	all := &sweeps{cfg: r.cfg, pd: r.pd, calls: r.recovery, freezer: r.freezer, scanned: regions}
	r.flashing = &flashback{cfg: r.cfg, tikv: r.tikv, states: known, record: r.record, sweeps: all}
	return nil
}

// apply waits, with Config.WaitApply, until every store has answered RecoverRegion and applied the logs of all its
// peers. Otherwise each region's prepare waits for the region's own log (see makeLeaders).
func (r *Resolver) apply(ctx context.Context, s *phase.Scope) error {
	if !r.cfg.WaitApply {
		s.Note("not waited for as a whole: each region is prepared when its own log is applied")
		return nil
	}
	if r.record.resumed {
		s.Note("not waited for: TiKV does not answer while a region is prepared, and the run before may have " +
			"prepared some")
		return nil
	}
	ctx, cancel := r.bounded(ctx, "apply logs of", applyBase, applyEach)
	defer cancel()
	return r.recovery.awaitApply(ctx, s)
}

// findUnchanged finds the regions that a flashback would not change: their logs end where they did at the backup's
// marks, and none of their keys is locked. They count as flashed back from then on, in the record, too. Any lock means
// that a region has changed, whatever its transaction: the commit record of a primary outlives the flashback, and would
// later commit the lock of a secondary.
func (r *Resolver) findUnchanged(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := r.bounded(ctx, "scan for locks in", sweepBase, scanEach)
	defer cancel()
	return r.flashing.findUnchanged(ctx, s, r.regionCalls().checkUnchanged)
}

// prepare blocks every region for everything except this flashback, but not those already flashed back, which would
// stay blocked for ever.
func (r *Resolver) prepare(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := r.bounded(ctx, "prepare", sweepBase, prepareEach)
	defer cancel()
	return r.flashing.prepare(ctx, s)
}

// flashback flashes every key back to the backup ts. A region that reports that it is not prepared is prepared again
// with the same timestamps: if it was already done, both calls change nothing.
func (r *Resolver) flashback(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := r.bounded(ctx, "flash back", sweepBase, flashbackEach)
	defer cancel()
	return r.flashing.flash(ctx, s)
}

// extendLogs makes sure that the log of each region with a replica that is ahead ends above everything that the replica
// has applied. The flashback's entries mostly do that. Otherwise the same flashback is repeated, which changes no row
// and adds entries: a replica elected before it is replaced would serve no requests, and TiKV crashes on the second
// entry proposed to it.
func (r *Resolver) extendLogs(ctx context.Context, s *phase.Scope) error {
	early := r.record.early
	if early == nil || len(early.Affected) == 0 {
		return nil
	}
	ctx, cancel := r.bounded(ctx, "extend the logs of", sweepBase, flashbackEach)
	defer cancel()
	return r.regionCalls().extendLogs(ctx, s, early)
}

func (r *Resolver) regionCalls() *regionCalls {
	return &regionCalls{cfg: r.cfg, pd: r.pd, tikv: r.tikv, calls: r.recovery, stamps: r.record.stamps}
}

// endRecover ends the open calls. The leaders stay.
func (r *Resolver) endRecover(context.Context, *phase.Scope) error {
	if r.recovery != nil {
		r.recovery.end()
	}
	return nil
}

// bounded gives a sub-phase a deadline that grows with the regions per store. Its cause names the sub-phase.
func (r *Resolver) bounded(
	ctx context.Context, verb string, base, each time.Duration,
) (context.Context, context.CancelFunc) {
	regions, stores := len(r.plan.Leaders), max(1, len(r.cfg.Stores))
	limit := base + time.Duration(regions/stores+1)*each
	return context.WithTimeoutCause(ctx, limit, failure.Wrap(context.DeadlineExceeded, failure.Limited,
		fmt.Sprintf("%s %d regions on %d stores within %s", verb, regions, stores, limit), ""))
}
