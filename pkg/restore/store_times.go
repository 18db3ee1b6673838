package restore

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// noteUp records the stores that are newly up in PD. PD has a process's start to the second, by its node's clock.
func (r *run) noteUp(up map[cluster.StoreID]time.Time, seen map[cluster.StoreID]bool) {
	for id, started := range up {
		if seen[id] || r.arrival.starting.IsZero() {
			continue
		}
		seen[id] = true
		r.arrival.times.Note(id, "pod", started.Sub(r.arrival.starting))
		r.arrival.times.Note(id, "TiKV", min(time.Since(started), time.Since(r.arrival.starting)))
	}
}

// pods maps stores to the names of the target's pods.
func (r *run) pods() map[cluster.StoreID]string {
	pods := map[cluster.StoreID]string{}
	for store, ordinal := range r.making.Plan().Ordinals() {
		pods[store] = fmt.Sprintf("%s-tikv-%d", r.opts.Target.Name, ordinal)
	}
	return pods
}
