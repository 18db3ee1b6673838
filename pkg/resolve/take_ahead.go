package resolve

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// takeAhead returns early with the replicas to rebuild, or refuses them: a replica that is ahead of the log skips the
// log's entries up to there, including the flashback's, and serves data above the backup ts if elected.
func takeAhead(s *phase.Scope, cfg *settings, made *plan.Plan, early *EarlyApply) (*EarlyApply, error) {
	if early == nil {
		return nil, nil // ruled out by the backup
	}
	if len(made.Affected) == 0 {
		return &EarlyApply{}, nil
	}
	const op = "plan recovery"
	target, names := cfg.Cluster.String(), make([]string, len(made.Affected))
	for i, a := range made.Affected {
		names[i] = a.String()
	}
	if !cfg.Rebuilds {
		return nil, failure.New(failure.Corrupt, op, target,
			"%d replicas have data that no log of the backup has, and would keep them whatever is flashed back: %s",
			len(names), failure.List(names)).
			WithHint(
				"they cannot be rebuilt here, as TiDB Operator starts TiDB right after this: a backup of tisnap's br "+
					"is restored by `tisnap restore %s --to CLUSTER`, which rebuilds them first; of one by PingCAP's "+
					"br "+
					"restore another backup", cfg.Backup)
	}
	s.Warn("%d replicas have data that no log of the backup has, such as %s: "+
		"they are rebuilt from the others before TiDB starts", len(names), names[0])
	return &EarlyApply{Affected: made.Affected, Rebuild: toRebuild(made, early.Rebuild)}, nil
}

// toRebuild returns the affected replicas, with what an earlier run has recorded about them.
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
