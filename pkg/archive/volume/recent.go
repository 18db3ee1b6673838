package volume

import (
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
)

// recentBlocks is how many of the run's own blocks are found again: 32 GiB of them, in 16 MiB (measured).
const recentBlocks = 1 << 16

// recent knows where the blocks are that the run packed last.
type recent struct {
	mu     sync.Mutex
	places map[format.Digest]format.Place
	ring   []format.Digest // in the order in which they came; the oldest is at next once it is full
	next   int
}

func (r *recent) find(digest format.Digest) (format.Place, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.places[digest]
	return p, ok
}

func (r *recent) add(p format.Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == nil {
		r.places = map[format.Digest]format.Place{}
	}
	if _, known := r.places[p.Block.Digest]; known {
		return // two goroutines packed it at the same time
	}
	if len(r.ring) < recentBlocks {
		r.ring = append(r.ring, p.Block.Digest)
	} else {
		delete(r.places, r.ring[r.next])
		r.ring[r.next] = p.Block.Digest
		r.next = (r.next + 1) % recentBlocks
	}
	r.places[p.Block.Digest] = p
}
