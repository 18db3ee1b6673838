package hold

import (
	"sync"
	"time"
)

// Part is how long one part of acquiring or releasing took.
type Part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

type timings struct {
	mu    sync.Mutex
	parts []Part
}

// start times a part until the result is called.
func (t *timings) start(name string) func() {
	begin := time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.parts = append(t.parts, Part{Name: name, Seconds: time.Since(begin).Seconds()})
	}
}

// Parts lists what was timed so far, in the order in which it ended.
func (h *Hold) Parts() []Part {
	h.parts.mu.Lock()
	defer h.parts.mu.Unlock()
	return append([]Part(nil), h.parts.parts...)
}
