package phase

import "sync"

// The names under which a run says what it holds of a live cluster: what expires by itself, and what does not.
const (
	RemainsHold       = "hold"
	RemainsEarlyApply = "early-apply"
)

// Remains is what would be left if the process of a run ended at this moment, for a person who ends it. The zero value
// is empty, a nil one takes nothing. It is safe for concurrent use.
type Remains struct {
	mu    sync.Mutex
	names []string // in the order in which they came first
	by    map[string]func() string
}

// Set says what is left from now on under this name. The function is called from another goroutine, must not wait, and
// returns "" if nothing is left any more.
func (r *Remains) Set(name string, describe func() string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]func() string{}
	}
	if _, known := r.by[name]; !known {
		r.names = append(r.names, name)
	}
	r.by[name] = describe
}

// Clear says that nothing of these names is left.
func (r *Remains) Clear(names ...string) {
	for _, name := range names {
		r.Set(name, func() string { return "" })
	}
}

// Lines describe what is left, and whether a live cluster is held.
func (r *Remains) Lines() (lines []string, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names {
		if line := r.by[name](); line != "" {
			lines = append(lines, line)
			held = held || name == RemainsHold || name == RemainsEarlyApply
		}
	}
	return lines, held
}
