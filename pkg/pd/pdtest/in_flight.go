package pdtest

import "sync"

// inFlight counts the handlers that run. A sync.WaitGroup may not be used for it: calls still begin while
// someone waits.
type inFlight struct {
	mu   sync.Mutex
	idle *sync.Cond
	n    int
}

func newInFlight() *inFlight {
	f := &inFlight{}
	f.idle = sync.NewCond(&f.mu)
	return f
}

func (f *inFlight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *inFlight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 {
		f.idle.Broadcast()
	}
}

// wait returns at a moment when none runs.
func (f *inFlight) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.n > 0 {
		f.idle.Wait()
	}
}
