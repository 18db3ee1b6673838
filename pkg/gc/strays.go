package gc

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
)

// strays returns what exists in Kubernetes under a removed target's name without a run tag, attributed to the last
// unfinished run.
type strays struct {
	run   cluster.RunID
	found []kube.Stray
}

// strayed lists and keeps all of them, because it is uncertain whether a run's target left them.
func (j *decider) strayed() []Item {
	var out []Item
	for _, id := range slices.Sorted(maps.Keys(j.runs)) {
		r := j.runs[id]
		s := j.strays[r.Cluster]
		if s.run != id {
			continue
		}
		for _, f := range s.found {
			out = append(out, strayItems(r, f)...)
		}
	}
	return out
}

func strayItems(r *run, s kube.Stray) []Item {
	reason := fmt.Sprintf("cluster %s is gone and it has no run tag: a failed restore or someone else may have left "+
		"it; if it is not needed, delete it by hand:",
		r.Cluster)
	it := Item{Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(), stray: true}
	var out []Item
	if s.Claim != "" {
		it.Kind, it.ID = KindClaim, r.Cluster.Namespace+"/"+s.Claim
		out = append(out,
			it.decided(ActionKeep, "%s kubectl -n %s delete pvc %s", reason, r.Cluster.Namespace, s.Claim))
	}
	if s.Volume != "" {
		it.Kind, it.ID = KindPV, s.Volume
		out = append(out,
			it.decided(ActionKeep, "%s kubectl delete pv %s, and then volume %s", reason, s.Volume, s.Handle))
	}
	return out
}
