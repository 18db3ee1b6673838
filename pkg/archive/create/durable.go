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

	mu    sync.Mutex
	packs int64
	bytes int64
}

// wrote is called when a segment was written, and calls note, one at a time, with what the process has spent by then.
// from is the number of the first pack that may have blocks of later segments.
func (d *durable) wrote(note func(from int, spent Spent)) {
	d.packing.WhenStored(func(from int) { note(from, d.now()) })
}

// stored notes that a pack is stored.
func (d *durable) stored(_ int, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.packs++
	d.bytes += size
}

// now is what this process has spent.
func (d *durable) now() Spent {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Spent{Packs: d.packs, StoredBytes: d.bytes}
	s.Lists, s.Reads, s.Throttled = d.spent()
	return s
}
