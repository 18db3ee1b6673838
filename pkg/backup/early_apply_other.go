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

// publishedLimit bounds reading what another process has published: the cluster is held meanwhile.
const publishedLimit = 10 * time.Second

// published is the state of early apply under another process's hold, before the cut.
type published struct {
	run      cluster.RunID
	replicas *earlyapply.Replicas
	absent   bool // no store has the setting, whatever was published
	err      error
}

// readPublished reads what the process that holds the cluster has published in PD about the replicas. If there is
// nothing, it asks the stores whether they have the setting at all.
func (e *earlyApply) readPublished(ctx context.Context) (p published) {
	ctx, cancel := context.WithTimeout(ctx, publishedLimit)
	defer cancel()
	if p.run, p.replicas, p.err = earlyapply.Published(ctx, e.pd); p.err == nil {
		return p
	}
	if stores, err := earlyStores(ctx, e.pd, e.opts.Cluster); err == nil {
		p.absent = earlyapply.Read(ctx, e.applier, stores).NotApplicable()
	}
	return p
}

// adoptPublished uses what the run that holds the cluster now has published, as if it had been read here; of lists the
// backup's stores. Anything else, or nothing, proves nothing, which is an error with RequireNoEarlyApply.
func (e *earlyApply) adoptPublished(s *phase.Scope, p published, holder cluster.RunID, of []cluster.Store) error {
	e.old, e.before, e.early = nil, p.replicas, early{absent: p.absent}
	err := p.err
	switch {
	case p.absent:
		return nil
	case err != nil:
	case p.run != holder:
		err = failure.New(failure.Conflict, "read published replicas", "PD",
			"run %s has left them, and run %s holds the cluster", p.run, holder)
	case e.opts.EarlyApply == RequireNoEarlyApply && len(elsewhere(p.replicas.Stores(), of)) > 0:
		err = failure.New(failure.Unready, "prove the cut", e.opts.Cluster.String(),
			"some of its stores are in other Kubernetes clusters, and other processes cut them")
	}
	if err == nil {
		return nil
	}
	e.before = nil
	if e.opts.EarlyApply == RequireNoEarlyApply {
		return &failure.Error{
			Op: "prove the cut", Target: e.opts.Cluster.String(), Kind: failure.Unready, Err: err,
			Hint: "--early-apply=prevent seals such a backup, and a restore looks for such replicas",
		}
	}
	s.Warn("a restore has to look for replicas that are ahead of their raft logs: %v", err)
	return nil
}

// elsewhere lists the stores that are not in this backup, unlike of: another process cuts them, at another time.
func elsewhere(stores []cluster.StoreID, of []cluster.Store) []cluster.StoreID {
	return slices.DeleteFunc(stores, func(id cluster.StoreID) bool {
		return slices.ContainsFunc(of, func(st cluster.Store) bool { return st.ID == id })
	})
}
