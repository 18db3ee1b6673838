package hold

import (
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

type timings struct {
	mu    sync.Mutex
	parts []phase.Part
}

// start times a part until the returned function is called.
func (t *timings) start(name string) func() {
	begin := time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.parts = append(t.parts, phase.Part{Name: name, Seconds: time.Since(begin).Seconds()})
	}
}

// sums adds up parts by name.
func (t *timings) sums() []phase.Part {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums, at := []phase.Part{}, map[string]int{}
	for _, p := range t.parts {
		if i, known := at[p.Name]; known {
			sums[i].Seconds += p.Seconds
			continue
		}
		at[p.Name] = len(sums)
		sums = append(sums, p)
	}
	return sums
}

// Parts lists the parts timed so far, in the order in which they first ended. Parts of the same name are added up.
func (h *Hold) Parts() []phase.Part { return h.parts.sums() }

// StoreParts lists what was timed on each store so far: connect, suspend imports, pause admin commands, wait
// apply and release.
func (h *Hold) StoreParts() []phase.StoreParts {
	out := make([]phase.StoreParts, 0, len(h.stores))
	for _, s := range h.stores {
		out = append(out, phase.StoreParts{Store: s.target.ID, Parts: s.times.sums()})
	}
	return out
}
