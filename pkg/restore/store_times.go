package restore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
)

// begin notes that the stores may start from now on.
func (a *arrival) begin() { a.starting = time.Now() }

// complete notes that these stores are all there, and the usable marks.
func (a *arrival) complete(stores []cluster.StoreID, usable *marks.Set) {
	a.stores, a.marks = stores, usable
	a.up.Store(true)
}

// noteUp records the stores that are newly up in PD. PD has a process's start to the second, by its node's clock.
func (a *arrival) noteUp(up map[cluster.StoreID]time.Time, seen map[cluster.StoreID]bool) {
	for id, started := range up {
		if seen[id] || a.starting.IsZero() {
			continue
		}
		seen[id] = true
		a.times.Note(id, "pod", started.Sub(a.starting))
		a.times.Note(id, "TiKV", min(time.Since(started), time.Since(a.starting)))
	}
}

// pods maps stores to the names of the target's pods.
func (r *run) pods() map[cluster.StoreID]string {
	pods := map[cluster.StoreID]string{}
	for _, v := range r.making.Plan().Volumes {
		pods[v.Store] = cmp.Or(v.Names.Pod, fmt.Sprintf("%s-tikv-%d", r.opts.Target.Name, v.Ordinal))
	}
	return pods
}
