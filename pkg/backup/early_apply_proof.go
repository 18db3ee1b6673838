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

// maxUnproven is how many regions a manifest lists at most: of more it says nothing of where.
const maxUnproven = 10_000

// proveEarlyApply says, after the cut, what is known of replicas that were ahead of their logs then. What cannot be found out
// is unproven.
func (r *run) proveEarlyApply(ctx context.Context, s *phase.Scope) *manifest.EarlyApply {
	unproven := &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}
	if !r.proving() {
		return unproven
	}
	if r.early.absent {
		return &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}
	}
	if r.early.before == nil {
		return unproven
	}
	limited, cancel := context.WithTimeout(ctx, rereadLimit)
	defer cancel()
	verdict, err := r.compareReplicas(limited)
	if ctx.Err() != nil {
		return unproven // the run is ended, and says why
	}
	if err != nil {
		s.Warn("a restore has to look for replicas that are ahead of their raft logs: %v", err)
		return unproven
	}
	if verdict.State == manifest.EarlyApplyUnproven {
		s.Warn("a restore has to look for replicas that are ahead of their raft logs: nothing is proven of %s", notProven(verdict))
	}
	if len(verdict.Regions) > maxUnproven {
		return unproven
	}
	return verdict
}

// notProven names the stores, and counts the regions: those that were split, merged or led by another store during the cut.
func notProven(v *manifest.EarlyApply) string {
	var of []string
	for _, id := range v.Stores {
		of = append(of, "store "+id.String())
	}
	if n := len(v.Regions); n > 0 {
		of = append(of, fmt.Sprintf("%d regions, which split or got another leader meanwhile, say", n))
	}
	return strings.Join(of, ", ")
}

// compareReplicas reads the stores' settings, processes and replicas again.
func (r *run) compareReplicas(ctx context.Context) (*manifest.EarlyApply, error) {
	now, err := earlyStores(ctx, r.PD, r.opts.Cluster)
	if err != nil {
		return nil, err
	}
	bad := r.early.failed.Stores()
	for _, st := range now {
		if !r.early.before.Asked(st.ID) {
			bad = append(bad, st.ID)
		}
	}
	now = slices.DeleteFunc(now, func(st earlyapply.Store) bool { return slices.Contains(bad, st.ID) })
	survey := earlyapply.Read(ctx, r.EarlyApply, now)
	bad = append(bad, survey.Failed.Stores()...)
	for _, on := range survey.On {
		bad = append(bad, on.Store)
	}
	regions, err := r.allRegions(ctx)
	if err != nil {
		return nil, err
	}
	if len(regions) == 0 {
		return nil, failure.New(failure.Unready, "read replicas", r.opts.Cluster.String(), "PD lists no region")
	}
	restarted, unproven := r.early.before.Unproven(earlyapply.ReadReplicas(ctx, r.TiKV, now, regions))
	bad = slices.Concat(bad, restarted, r.elsewhere(r.early.before.Stores()))
	slices.Sort(bad)
	return verdict(slices.Compact(bad), unproven), nil
}

func verdict(stores []cluster.StoreID, regions []cluster.RegionID) *manifest.EarlyApply {
	if len(stores)+len(regions) == 0 {
		return &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}
	}
	return &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Stores: stores, Regions: regions}
}

// requireProof fails a backup that has to be proven and is not.
func (r *run) requireProof() error {
	if m := (&manifest.Manifest{EarlyApply: r.proof.EarlyApply}); r.opts.EarlyApply != RequireNoEarlyApply || m.EarlyApplyRuledOut() {
		return nil
	}
	return failure.New(failure.Unready, "prove the cut", r.opts.Cluster.String(), "a replica may have been ahead of its raft log, and --early-apply=require refuses that").
		WithHint("run it again when no region changes its leader; --early-apply=prevent seals such a backup, and a restore looks for such replicas")
}
