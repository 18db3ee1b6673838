package hold

import (
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// StoreParts is how long the parts took on one store. Parts of the same name are added up.
type StoreParts struct {
	Store cluster.StoreID `json:"store"`
	Parts []phase.Part    `json:"parts"`
}

type timings struct {
	mu    sync.Mutex
	parts []phase.Part
}

// start times a part until the result is called.
func (t *timings) start(name string) func() {
	begin := time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.parts = append(t.parts, phase.Part{Name: name, Seconds: time.Since(begin).Seconds()})
	}
}

func (t *timings) list() []phase.Part {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]phase.Part(nil), t.parts...)
}

// Parts lists what was timed so far, in the order in which it ended.
func (h *Hold) Parts() []phase.Part { return h.parts.list() }

// StoreParts lists what was timed on each store so far: connect, suspend imports, pause admin commands, wait
// apply and release.
func (h *Hold) StoreParts() []StoreParts {
	out := make([]StoreParts, 0, len(h.stores))
	for _, s := range h.stores {
		of := StoreParts{Store: s.target.ID, Parts: []phase.Part{}}
		at := map[string]int{}
		for _, p := range s.times.list() {
			i, known := at[p.Name]
			if !known {
				at[p.Name] = len(of.Parts)
				of.Parts = append(of.Parts, p)
				continue
			}
			of.Parts[i].Seconds += p.Seconds
		}
		out = append(out, of)
	}
	return out
}
