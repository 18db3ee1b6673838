package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// collect reads the metas of all stores at the same time, each as soon as PD lists it. The stores in PD must
// be exactly those of the manifest, and none may have restarted since it was read.
func (r *Resolver) collect(ctx context.Context, s *phase.Scope) (err error) {
	r.stores = newStoreList(r.cfg, r.pd)
	g := newGathering(r.cfg, r.tikv, r.stores, r.questions.asked, r.log)
	r.questions.gathering.Store(true)
	defer r.questions.gathering.Store(false)
	r.metas, err = g.run(ctx, s)
	return err
}

// Without says whether a plan without the stores can be made, while the step collect runs: from another step, beside it. It
// is not known before collect and after it, and when ctx ends.
func (r *Resolver) Without(ctx context.Context, late []cluster.StoreID) Verdict {
	return r.questions.ask(ctx, late)
}

// findAhead finds the replicas whose data hold entries that their own raft logs do not have, unless the backup has ruled
// them out. It has to be done before the first RecoverRegion: a leader gives its log to the others within milliseconds.
// A run that resumes one that may have sent it goes by what that one has written down.
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
		r.record.early, r.record.earlyForSure = found, true
		s.Note("%d replicas that are ahead of their logs are known from the run before", len(found.Affected))
		return nil
	}
	reader := &aheadReader{cfg: r.cfg, tikv: r.tikv, stores: r.stores}
	ahead, err := reader.read(ctx, s, r.metas.Peers())
	if err != nil {
		return failure.Annotate(err, "look for replicas ahead of their logs", r.cfg.Cluster.String())
	}
	r.record.early = &EarlyApply{Affected: ahead}
	s.Result(journal.ResultAhead, r.record.early)
	return nil
}

// freeze lowers PD's limits, reads them back, and keeps them, the pauses of its schedulers and the GC hold until
// thaw: the flashback of a large cluster takes longer than one TTL.
func (r *Resolver) freeze(ctx context.Context, _ *phase.Scope) error {
	return r.freezer.freeze(ctx, r.record.early.present())
}

// checkGC fails if what the run relies on is lost: another run recovers the cluster, or GC has passed the backup ts.
func (r *Resolver) checkGC(ctx context.Context) error {
	r.freezer.pollGC(ctx)
	return r.interrupted()
}

// interrupted is checkGC without a question to PD.
func (r *Resolver) interrupted() error {
	if err := r.checkCalls(); err != nil {
		return err
	}
	return r.freezer.gcPassed()
}

// foundBefore is what an earlier run has found of replicas that are ahead, and PD cannot have copied since.
func (r *Resolver) foundBefore(ctx context.Context) (*EarlyApply, error) {
	found, err := r.record.foundBefore(ctx)
	if err != nil {
		return nil, err
	}
	return found, r.freezer.checkKept(ctx, found)
}

// stamp takes the flashback's timestamps, or those of the run that this one resumes, and writes them down
// before anything is prepared with them.
func (r *Resolver) stamp(ctx context.Context, s *phase.Scope) error {
	if err := r.record.stamp(ctx, s); err != nil {
		return err
	}
	return r.freezer.holdGC(ctx)
}
