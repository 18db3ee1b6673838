package filled

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// tikv is what the pods of TiKV ask of their nodes, and the zones of the nodes that take them, by volume.
type tikv struct {
	rules []podnodes.Rules
	zones [][]cluster.Zone
}

// choose chooses the zone of each store: one of those of the nodes that take the pods which fill volumes, where the
// classes make volumes and a node takes TiKV. There is none where those nodes have no zones.
func choose(
	planned []volumes.Volume, chosen Zones, classes []class, nodes []cluster.Zone, pods tikv,
) (map[cluster.StoreID]cluster.Zone, error) {
	targets, err := allowed(nodes, classes)
	if err != nil {
		return nil, err
	}
	if chosen.All == "" && len(chosen.Pairs) == 0 {
		targets = pods.prefer(targets)
	}
	zones, err := spread(planned, chosen, targets)
	if err != nil {
		return nil, err
	}
	return zones, pods.check(planned, zones)
}

// prefer returns those of the zones in which a node takes some of the pods; all if there is none, which check reports.
func (p tikv) prefer(zones []cluster.Zone) []cluster.Zone {
	some := slices.DeleteFunc(slices.Clone(zones), func(z cluster.Zone) bool {
		return !slices.Contains(slices.Concat(p.zones...), z)
	})
	if len(some) == 0 {
		return zones
	}
	return some
}

// check refuses a zone in which no node takes its store's pod: that would be Pending once all is filled.
func (p tikv) check(planned []volumes.Volume, zones map[cluster.StoreID]cluster.Zone) error {
	for i, v := range planned {
		zone := zones[v.Store]
		if zone == "" || slices.Contains(p.zones[i], zone) {
			continue
		}
		where := "no node of this Kubernetes cluster does"
		if len(p.zones[i]) > 0 {
			where = fmt.Sprintf("those that do are in %v", p.zones[i])
		}
		return failure.New(failure.Unready, "choose zone", "store "+v.Store.String(),
			"its volumes would be made in %s, where no node takes its TiKV pod (%s): %s", zone, p.rules[i].String(),
			where).
			WithHint("change what the pod asks of its node by --patch, name zones by --target-az or --az-map, or add " +
				"such a node there; if an autoscaler is to make it, name its labels by --worker-node-selector")
	}
	return nil
}
