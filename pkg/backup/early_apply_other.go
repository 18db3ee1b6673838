package backup

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// publishedLimit bounds the reading of what another process has published: it holds the cluster meanwhile.
const publishedLimit = 10 * time.Second

// published is what is known, before the cut, of early apply under the hold of another process.
type published struct {
	run      cluster.RunID
	replicas *earlyapply.Replicas
	absent   bool // no store has the setting, whatever was published
	err      error
}

// readPublished reads what the process that holds the cluster has left in PD of the replicas. Where nothing is left,
// the stores are asked whether they have the setting at all.
func (r *run) readPublished(ctx context.Context) (p published) {
	ctx, cancel := context.WithTimeout(ctx, publishedLimit)
	defer cancel()
	if p.run, p.replicas, p.err = earlyapply.Published(ctx, r.PD); p.err == nil {
		return p
	}
	if stores, err := earlyStores(ctx, r.PD, r.opts.Cluster); err == nil {
		p.absent = earlyapply.Read(ctx, r.EarlyApply, stores).NotApplicable()
	}
	return p
}

// adoptPublished continues with what the run has published that holds the cluster now, as if it were read here. What
// another run has left, or nothing, proves nothing; with RequireNoEarlyApply that is an error.
func (r *run) adoptPublished(s *phase.Scope, p published) error {
	r.early = early{absent: p.absent, before: p.replicas}
	err := p.err
	switch {
	case p.absent:
		return nil
	case err != nil:
	case p.run != r.hold.Run():
		err = failure.New(failure.Conflict, "read published replicas", "PD",
			"run %s has left them, and run %s holds the cluster", p.run, r.hold.Run())
	case r.opts.EarlyApply == RequireNoEarlyApply && len(r.elsewhere(p.replicas.Stores())) > 0:
		err = failure.New(failure.Unready, "prove the cut", r.opts.Cluster.String(),
			"some of its stores are in other Kubernetes clusters, and other processes cut them")
	}
	if err == nil {
		return nil
	}
	r.early.before = nil
	if r.opts.EarlyApply == RequireNoEarlyApply {
		return &failure.Error{
			Op: "prove the cut", Target: r.opts.Cluster.String(), Kind: failure.Unready, Err: err,
			Hint: "--early-apply=prevent seals such a backup, and a restore looks for such replicas",
		}
	}
	s.Warn("a restore has to look for replicas that are ahead of their raft logs: %v", err)
	return nil
}

// elsewhere are the stores of these that are not in this backup: another process cuts them, at another time.
func (r *run) elsewhere(stores []cluster.StoreID) []cluster.StoreID {
	return slices.DeleteFunc(stores, func(id cluster.StoreID) bool {
		return slices.ContainsFunc(r.source.Topology.Stores, func(st cluster.Store) bool { return st.ID == id })
	})
}

// proveHold proves the hold over the whole cut. That of another process lasts until this run has recorded its cut, and
// its renewals are waited for: the replicas are read again meanwhile.
func (r *run) proveHold(ctx context.Context, s *phase.Scope) error {
	if !r.opts.OtherHolds {
		return r.hold.Prove(ctx)
	}
	return allOrFirst(ctx, []func(context.Context) error{
		r.hold.Prove,
		func(ctx context.Context) error { r.early.verdict = r.proveEarlyApply(ctx, s); return nil },
	}, func(ctx context.Context, prove func(context.Context) error) error { return prove(ctx) })
}
