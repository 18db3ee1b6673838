package repository

import (
	"math"
	"time"

	"github.com/tisnap/tisnap/pkg/objstore"
)

// Way is how packs are uploaded: so many at the same time, each closed at a size.
type Way struct {
	Uploads int
	Size    int64 // of a pack; 0 is the repository's
}

// ways are for storages within a latency. One connection carries at most its window in each round trip, so the further
// the storage is, the more of them are needed. With two packers all take the same memory.
func ways() []struct {
	within time.Duration
	Way
} {
	return []struct {
		within time.Duration
		Way
	}{
		{5 * time.Millisecond, Way{1, 32 << 20}},
		{30 * time.Millisecond, Way{4, 16 << 20}},
		{math.MaxInt64, Way{10, 8 << 20}},
	}
}

// Way is the one for the latency that was measured so far.
func (r *Repository) Way() (w Way) {
	latency := objstore.Latency(r.store)
	for _, row := range ways() {
		if w = row.Way; latency <= row.within {
			break
		}
	}
	return w
}
