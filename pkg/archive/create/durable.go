package create

import (
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/repository"
)

// durable notes each segment once all packs that were begun before it was written are stored: no other process need
// look at its blocks.
type durable struct {
	packing *repository.Packing
	spent   func() (lists, reads, throttled int64)

	mu      sync.Mutex
	waiting []waiting // in the order in which they were written
	packs   int64
	bytes   int64
}

type waiting struct {
	note  func(spent Spent)
	begun int // packs that must be stored
}

// wrote is called when a segment was written, and calls note, one at a time, with what the process has spent by then.
// from is the number of the first pack that may have blocks of later segments.
func (d *durable) wrote(note func(from int, spent Spent)) {
	begun, below := d.packing.Begun()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, waiting{func(spent Spent) { note(below, spent) }, begun})
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

// flush notes the segments that wait for no pack. d.mu is held.
func (d *durable) flush(below int) {
	for len(d.waiting) > 0 && d.waiting[0].begun <= below {
		d.waiting[0].note(d.sum())
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
