package report

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Changed is how much of a cluster's data is in regions that were written to between the previous backup and this one.
// EC2 reports the size of the difference of two snapshots only through a call per volume to another service. Instead it
// is computed from where the raft log of each region ended at both backups: a region whose log still ends there has had
// no write. So it is an upper bound of what was written, because a region counts whole, and a new leader's first entry
// counts as a write. It does not bound what EC2 copies, because compaction rewrites old data, too.
type Changed struct {
	Since cluster.BackupID `json:"since"` // the previous backup
	// Regions is how many were written to, split, merged or created since then, or are unknown; Of is all.
	Regions int `json:"regions"`
	Of      int `json:"of"`
	// DataBytes is their share of the data, by number: regions are of about the same size. 0 is unknown or nothing.
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// Size is the data, or the regions if that is unknown; "" for nil.
func (c *Changed) Size() string {
	switch {
	case c == nil:
		return ""
	case c.DataBytes > 0:
		return Bytes(c.DataBytes)
	}
	return fmt.Sprintf("%d regions", c.Regions)
}

// Text is its line in a report; "" for nil.
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
