package gc

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// copies are what the sealed copies of a storage have of each volume.
type copies map[cluster.BackupID][]manifest.Snapshot

// newest maps each volume to the good copy that EC2 began last: the next copy of the volume is incremental for as long
// as that one exists. A copy that lacks snapshots does not count, as they are gone.
func (c copies) newest(broken map[cluster.BackupID]string) map[cluster.VolumeID]cluster.BackupID {
	out, at := map[cluster.VolumeID]cluster.BackupID{}, map[cluster.VolumeID]time.Time{}
	for id, snapshots := range c {
		if broken[id] != "" {
			continue
		}
		for _, s := range snapshots {
			switch c := s.StartedAt.Compare(at[s.Volume]); {
			case out[s.Volume] == "", c > 0, c == 0 && id > out[s.Volume]:
				out[s.Volume], at[s.Volume] = id, s.StartedAt
			}
		}
	}
	return out
}

// nextFull returns why a copy is kept for the sake of the next one; "" if another backup has a newer copy of each of
// its volumes, or if it is none.
func (p *pruning) nextFull(e catalog.Entry) string {
	of := p.world.copies[e.ID]
	if p.opts.AllowFull || len(of) == 0 {
		return ""
	}
	n := 0
	for _, s := range of {
		if p.newest[s.Volume] == e.ID {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the newest copy of %d of its %d volumes: the next copy would be full (--allow-full deletes it)",
		n, len(of))
}
