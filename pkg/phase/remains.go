package phase

import "sync"

// The names under which a run registers its hold on a live cluster: what expires on its own, and what does not.
const (
	RemainsHold       = "hold"
	RemainsEarlyApply = "early-apply"
)

// Remains is what would be left if the run's process exited now, to show to the user who stops it. The zero value is
// empty, a nil one ignores everything. It is safe for concurrent use.
type Remains struct {
	mu    sync.Mutex
	names []string // in order of first appearance
	by    map[string]func() string
}

// Set registers what is left under this name. The function is called from another goroutine, must not block, and
// returns "" once nothing is left.
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

// Clear removes these names.
func (r *Remains) Clear(names ...string) {
	for _, name := range names {
		r.Set(name, func() string { return "" })
	}
}

// Lines returns what is left, and whether a live cluster is held.
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
