package restore

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// noteVolume notes that one more volume of the store is available; the last one's time stays.
func (r *run) noteVolume(store cluster.StoreID) {
	if !r.asking.IsZero() {
		r.times.Note(store, "volume", time.Since(r.asking))
	}
}

// noteUp notes the stores that PD has up and that were not seen before. PD says to the second when a store's process
// started, by the clock of its node.
func (r *run) noteUp(up map[cluster.StoreID]time.Time, seen map[cluster.StoreID]bool) {
	for id, started := range up {
		if seen[id] || r.starting.IsZero() {
			continue
		}
		seen[id] = true
		r.times.Note(id, "pod", started.Sub(r.starting))
		r.times.Note(id, "TiKV", min(time.Since(started), time.Since(r.starting)))
	}
}

// pods are the names of the target's pods by their stores.
func (r *run) pods() map[cluster.StoreID]string {
	pods := map[cluster.StoreID]string{}
	for _, v := range r.volumes {
		pods[v.Store] = fmt.Sprintf("%s-tikv-%d", r.opts.Target.Name, v.Ordinal)
	}
	return pods
}
