package create

import (
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// durable journals each segment once all packs that were begun before it was written are stored: a process that resumes
// the run need not look at its blocks.
type durable struct {
	scope   *phase.Scope
	packing *repository.Packing
	spent   func() (lists, reads, throttled int64)

	mu      sync.Mutex
	waiting []waiting // in the order in which they were written
	packs   int64
	bytes   int64
}

type waiting struct {
	segment
	begun int // packs that must be stored
}

// wrote notes a segment that was written.
func (d *durable) wrote(s segment) {
	begun, below := d.packing.Begun()
	s.From = below
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, waiting{s, begun})
	d.flush(below)
}

// stored notes that a pack, and all packs before below, are stored.
func (d *durable) stored(below int, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.packs++
	d.bytes += size
	d.flush(below)
}

// flush journals the segments that wait for no pack. d.mu is held.
func (d *durable) flush(below int) {
	for len(d.waiting) > 0 && d.waiting[0].begun <= below {
		s := d.waiting[0].segment
		s.Spent = d.sum()
		d.scope.Result(journal.ResultSegment, s)
		d.waiting = d.waiting[1:]
	}
}

// now is what this process has spent.
func (d *durable) now() Spent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sum()
}

func (d *durable) sum() Spent {
	s := Spent{Packs: d.packs, StoredBytes: d.bytes}
	s.Lists, s.Reads, s.Throttled = d.spent()
	return s
}
