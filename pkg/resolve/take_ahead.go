package resolve

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// takeAhead notes which replicas have to be rebuilt, or refuses them: a replica whose data are ahead of the log skips the
// log's entries up to there, the flashback's own included, and serves what is above the backup ts if it is elected.
func (r *Resolver) takeAhead(s *phase.Scope, made *plan.Plan) error {
	if r.record.early == nil {
		return nil // ruled out by the backup
	}
	was := r.record.early.Rebuild
	r.record.early = &EarlyApply{Affected: made.Affected}
	if len(made.Affected) == 0 {
		return nil
	}
	const op = "plan recovery"
	target, names := r.cfg.Cluster.String(), make([]string, len(made.Affected))
	for i, a := range made.Affected {
		names[i] = a.String()
	}
	if !r.cfg.Rebuilds {
		return failure.New(failure.Corrupt, op, target,
			"%d replicas have data that no log of the backup has, and would keep them whatever is flashed back: %s", len(names), failure.List(names)).
			WithHint("they cannot be rebuilt here, as TiDB Operator starts TiDB right after this: a backup of tisnap's br is restored by "+
				"`tisnap restore %s --to CLUSTER`, which rebuilds them first; of one by PingCAP's br restore another backup", r.cfg.Backup)
	}
	r.record.early.Rebuild = toRebuild(made, was)
	s.Warn("%d replicas have data that no log of the backup has, such as %s: they are rebuilt from the others before TiDB starts", len(names), names[0])
	return nil
}

// toRebuild are the affected replicas, with what an earlier run has noted of them.
func toRebuild(made *plan.Plan, was []Replica) []Replica {
	keys := make(map[cluster.RegionID]cluster.KeyRange, len(made.Leaders))
	for i := range made.Leaders {
		keys[made.Leaders[i].Region] = made.Leaders[i].Keys
	}
	list := was
	for _, a := range made.Affected {
		if find(list, a.Region, a.Store) == nil {
			list = append(list, Replica{Region: a.Region, Store: a.Store, Keys: keys[a.Region]})
		}
	}
	return list
}
