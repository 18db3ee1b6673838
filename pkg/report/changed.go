package report

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Changed is how much of a cluster's data lies in regions that were written to between a backup and the one before it.
// EC2 does not say how large the difference of two snapshots is without a call a volume to another service. What is
// known is where the raft log of each region ended at both backups: one that still ends there has had no write. So it
// is an upper bound of what was written, as a region counts whole, and a new leader's first entry counts as a write. It
// is none of what EC2 copies, as compaction rewrites old data too.
type Changed struct {
	Since cluster.BackupID `json:"since"` // the backup before
	// Regions is how many were written to, split, merged or made since then, or not known; Of are all.
	Regions int `json:"regions"`
	Of      int `json:"of"`
	// DataBytes is their share of the data, by number: regions are of about the same size. 0 is not known, or nothing.
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// Size is how much it is: the data, else the regions; "" of nil.
func (c *Changed) Size() string {
	switch {
	case c == nil:
		return ""
	case c.DataBytes > 0:
		return Bytes(c.DataBytes)
	}
	return fmt.Sprintf("%d regions", c.Regions)
}

// Text is what a report says of it; "" of nil.
func (c *Changed) Text() string {
	if c == nil {
		return ""
	}
	data := ""
	if c.DataBytes > 0 {
		data = ", with about " + Bytes(c.DataBytes) + " of data"
	}
	return fmt.Sprintf("%d of %d regions%s, since backup %s", c.Regions, c.Of, data, Name(string(c.Since)))
}
