package scale

import (
	"math/rand/v2"
	"runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
)

const (
	million       = 1_000_000
	maxStored     = 12_000_000
	maxMemoryEach = 40.0
)

// Sizes is how large the marks of a million regions are.
type Sizes struct {
	StoredBytes int     `json:"storedBytes"`
	StoredLimit int     `json:"storedBytesLimit"`
	MemoryEach  float64 `json:"memoryBytesEach"`
	MemoryLimit float64 `json:"memoryBytesEachLimit"`
}

// measure makes marks as those of a cluster that has lived: ids given out to regions and their peers, versions of splits,
// indexes of all sizes. It stores them and reads them back.
func (s *Sizes) measure() error {
	s.StoredLimit, s.MemoryLimit = maxStored, maxMemoryEach
	r := rand.New(rand.NewPCG(1, 2))
	list, id := make([]marks.Mark, million), uint64(1000)
	for i := range list {
		id += 4 + r.Uint64N(60)
		list[i] = marks.Mark{
			Region: cluster.RegionID(id), Version: 1 + r.Uint64N(million), Term: 6 + r.Uint64N(30), Index: 6 + r.Uint64N(1<<(8+r.Uint64N(20))),
		}
	}
	body, err := marks.NewSet(list).Encode()
	if err != nil {
		return err
	}
	s.StoredBytes = len(body)
	before := liveHeap()
	set, err := marks.Decode(body)
	if err != nil {
		return err
	}
	s.MemoryEach = float64(liveHeap()-before) / float64(set.Len())
	runtime.KeepAlive(set)
	runtime.KeepAlive(body)
	return nil
}

// liveHeap is how many bytes are in use after a collection.
func liveHeap() int64 {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int64(mem.HeapAlloc)
}
