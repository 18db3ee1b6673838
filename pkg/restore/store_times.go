package restore

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// noteUp notes the stores that PD has up and that were not seen before. PD says to the second when a store's process
// started, by the clock of its node.
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

// pods are the names of the target's pods by their stores.
func (r *run) pods() map[cluster.StoreID]string {
	pods := map[cluster.StoreID]string{}
	for store, ordinal := range r.making.Plan().Ordinals() {
		pods[store] = fmt.Sprintf("%s-tikv-%d", r.opts.Target.Name, ordinal)
	}
	return pods
}
