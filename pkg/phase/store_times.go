package phase

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// StoreParts are the times of a run's parts on one store. Parts may overlap.
type StoreParts struct {
	Store cluster.StoreID `json:"store"`
	Pod   string          `json:"pod,omitempty"`
	Parts []Part          `json:"parts"`
}

// StoreTimes collects how long parts took on each store. It is safe for concurrent use; a nil one collects nothing.
type StoreTimes struct {
	mu     sync.Mutex
	stores []StoreParts
	fresh  []StoreParts // not journalled yet
}

// Note records how long a part took on a store; the longest of several times wins. A negative time, from skewed clocks,
// becomes zero.
func (t *StoreTimes) Note(id cluster.StoreID, part string, took time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := max(took, 0).Seconds()
	t.stores, t.fresh = longest(t.stores, id, part, seconds), longest(t.fresh, id, part, seconds)
}

// longest returns the list with a part on a store added; the longest of several times wins.
func longest(stores []StoreParts, id cluster.StoreID, part string, seconds float64) []StoreParts {
	i := slices.IndexFunc(stores, func(s StoreParts) bool { return s.Store == id })
	if i < 0 {
		i, stores = len(stores), append(stores, StoreParts{Store: id})
	}
	parts := &stores[i].Parts
	j := slices.IndexFunc(*parts, func(p Part) bool { return p.Name == part })
	if j < 0 {
		*parts = append(*parts, Part{Name: part, Seconds: seconds})
	} else {
		(*parts)[j].Seconds = max((*parts)[j].Seconds, seconds)
	}
	return stores
}

// take returns what was recorded since the last call.
func (t *StoreTimes) take() []StoreParts {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := t.fresh
	t.fresh = nil
	return fresh
}

// resume adds what the run's earlier processes journalled.
func (t *StoreTimes) resume(h *History) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range h.Records {
		for _, store := range r.Stores {
			for _, part := range store.Parts {
				t.stores = longest(t.stores, store.Store, part.Name, part.Seconds)
			}
		}
	}
}

// Stores lists the records by store id, with each store's pod if pods names it.
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
	slices.SortFunc(out, func(a, b StoreParts) int { return cmp.Compare(a.Store, b.Store) })
	return out
}
