package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// maxUnproven is the most regions that a manifest lists: of more it only has the number.
const maxUnproven = 10_000

// prove returns, after the cut of these stores, what is known about replicas that were ahead of their logs then. What
// cannot be determined is unproven.
func (e *earlyApply) prove(ctx context.Context, s *phase.Scope, of []cluster.Store) *manifest.EarlyApply {
	unproven := &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}
	if !e.proving() {
		return unproven
	}
	if e.absent {
		return &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}
	}
	if e.before == nil {
		return unproven
	}
	limited, cancel := context.WithTimeout(ctx, rereadLimit)
	defer cancel()
	early, err := e.compare(limited, of)
	if ctx.Err() != nil {
		return unproven // the run fails and reports why
	}
	if err != nil {
		s.Warn("a restore has to look for replicas that are ahead of their raft logs: %v", err)
		return unproven
	}
	if early.State == manifest.EarlyApplyUnproven {
		s.Warn("a restore has to look for replicas that are ahead of their raft logs: nothing is proven of %s",
			notProven(early))
	}
	if len(early.Regions) > maxUnproven {
		return unproven
	}
	return early
}

// notProven names the stores and counts the regions: those that split, merged or changed their leader during the cut.
func notProven(v *manifest.EarlyApply) string {
	var of []string
	for _, id := range v.Stores {
		of = append(of, "store "+id.String())
	}
	if n := len(v.Regions); n > 0 {
		of = append(of, fmt.Sprintf("%d regions, for example because they split or changed leader", n))
	}
	return strings.Join(of, ", ")
}

// compare rereads the stores' settings, processes and replicas.
func (e *earlyApply) compare(ctx context.Context, of []cluster.Store) (*manifest.EarlyApply, error) {
	now, err := earlyStores(ctx, e.pd, e.opts.Cluster)
	if err != nil {
		return nil, err
	}
	bad := e.failed.Stores()
	for _, st := range now {
		if !e.before.Asked(st.ID) {
			bad = append(bad, st.ID)
		}
	}
	now = slices.DeleteFunc(now, func(st earlyapply.Store) bool { return slices.Contains(bad, st.ID) })
	survey := earlyapply.Read(ctx, e.applier, now)
	bad = append(bad, survey.Failed.Stores()...)
	for _, on := range survey.On {
		bad = append(bad, on.Store)
	}
	regions, err := e.allRegions(ctx)
	if err != nil {
		return nil, err
	}
	if len(regions) == 0 {
		return nil, failure.New(failure.Unready, "read replicas", e.opts.Cluster.String(), "PD lists no region")
	}
	restarted, unproven := e.before.Unproven(earlyapply.ReadReplicas(ctx, e.tikv, now, regions))
	bad = slices.Concat(bad, restarted, elsewhere(e.before.Stores(), of))
	slices.Sort(bad)
	return earlyApplyProof(slices.Compact(bad), unproven), nil
}

func earlyApplyProof(stores []cluster.StoreID, regions []cluster.RegionID) *manifest.EarlyApply {
	if len(stores)+len(regions) == 0 {
		return &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}
	}
	return &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Stores: stores, Regions: regions}
}

// require fails a backup that must be proven and is not.
func (e *earlyApply) require(proven *manifest.EarlyApply) error {
	m := &manifest.Manifest{EarlyApply: proven}
	if e.opts.EarlyApply != RequireNoEarlyApply || m.EarlyApplyRuledOut() {
		return nil
	}
	return failure.New(failure.Unready, "prove the cut", e.opts.Cluster.String(),
		"a replica may have been ahead of its raft log, and --early-apply=require refuses that").
		WithHint("run it again when no region changes its leader; --early-apply=prevent seals such a backup, and a " +
			"restore looks for such replicas")
}
