package phase

import (
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// StoreParts is how long the parts of a run took on one store. Parts may overlap.
type StoreParts struct {
	Store cluster.StoreID `json:"store"`
	Pod   string          `json:"pod,omitempty"`
	Parts []Part          `json:"parts"`
}

// StoreTimes collects how long parts took on each store. It is safe for concurrent use; a nil one collects nothing.
type StoreTimes struct {
	mu     sync.Mutex
	stores []StoreParts
}

// Note sets how long a part took on a store; of several times for one part the longest stays. A time below zero, of
// clocks that differ, is zero.
func (t *StoreTimes) Note(id cluster.StoreID, part string, took time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.stores, func(s StoreParts) bool { return s.Store == id })
	if i < 0 {
		i, t.stores = len(t.stores), append(t.stores, StoreParts{Store: id})
	}
	seconds := max(took, 0).Seconds()
	for j := range t.stores[i].Parts {
		if p := &t.stores[i].Parts[j]; p.Name == part {
			p.Seconds = max(p.Seconds, seconds)
			return
		}
	}
	t.stores[i].Parts = append(t.stores[i].Parts, Part{Name: part, Seconds: seconds})
}

// Stores lists what was noted, by the stores' ids, with the pod of each store that pods names.
func (t *StoreTimes) Stores(pods map[cluster.StoreID]string) []StoreParts {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]StoreParts, 0, len(t.stores))
	for _, s := range t.stores {
		out = append(out, StoreParts{Store: s.Store, Pod: pods[s.Store], Parts: slices.Clone(s.Parts)})
	}
	slices.SortFunc(out, func(a, b StoreParts) int { return int(a.Store) - int(b.Store) })
	return out
}
