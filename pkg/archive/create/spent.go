package create

import (
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
)

// Spent is what a run asked of AWS and wrote, as far as its journal knows: what a process did after its last record is
// missing if it was killed.
type Spent struct {
	Lists       int64 `json:"lists"` // of blocks
	Reads       int64 `json:"reads"` // of blocks, repeated ones included
	Throttled   int64 `json:"throttled,omitempty"`
	Packs       int64 `json:"packs"`
	StoredBytes int64 `json:"storedBytes"` // in packs
}

func (s *Spent) add(o Spent) {
	s.Lists += o.Lists
	s.Reads += o.Reads
	s.Throttled += o.Throttled
	s.Packs += o.Packs
	s.StoredBytes += o.StoredBytes
}

// Volume is what was done for one volume.
type Volume struct {
	Store    cluster.StoreID    `json:"store"`
	Role     cluster.Role       `json:"role"`
	Snapshot cluster.SnapshotID `json:"snapshot"`
	SizeGiB  int64              `json:"sizeGiB"`
	Compared Compared           `json:"comparedWith"`
	// FreeUnknown is why no block is taken for free, as a clause; "" if its file system lists which are, or is not
	// asked.
	FreeUnknown string `json:"freeUnknown,omitempty"`
	volume.Stats
	Seconds float64 `json:"seconds"` // of the last process, or of all that shared it together
}
