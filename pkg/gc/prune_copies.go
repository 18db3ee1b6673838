package gc

import (
	"fmt"
	"maps"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// lineage is what EC2 copies the changes of alone: a volume, by the way that its copies came.
type lineage struct {
	volume cluster.VolumeID
	over   string // see manifest.CopyOf
}

// copies are what the sealed copies of a storage have of each volume.
type copies map[cluster.BackupID]map[lineage]volumeCopy

// volumeCopy is the copy of a volume, and when EC2 began it.
type volumeCopy struct {
	snapshot cluster.SnapshotID
	at       time.Time
}

func copiesOf(m *manifest.Manifest) map[lineage]volumeCopy {
	out := map[lineage]volumeCopy{}
	for _, s := range m.Snapshots {
		out[lineage{s.Volume, m.CopyOf.Over()}] = volumeCopy{s.ID, s.StartedAt}
	}
	return out
}

// newest maps each volume to the good copy that EC2 began last: the next copy of the volume is incremental for as long
// as that one exists. A copy that lacks snapshots does not count, as they are gone.
func (c copies) newest(broken map[cluster.BackupID]string) map[lineage]cluster.BackupID {
	out := map[lineage]cluster.BackupID{}
	for id, of := range c {
		if broken[id] != "" {
			continue
		}
		for volume, one := range of {
			last := out[volume]
			if d := one.at.Compare(c[last][volume].at); last == "" || d > 0 || d == 0 && id > last {
				out[volume] = id
			}
		}
	}
	return out
}

// withoutArchived leaves out the volumes whose newest copy is in the archive tier: the next copy is full anyway.
func (c copies) withoutArchived(newest map[lineage]cluster.BackupID, all []ebs.Snapshot) {
	archived := map[cluster.SnapshotID]bool{}
	for _, s := range all {
		archived[s.ID] = s.Archived
	}
	maps.DeleteFunc(newest, func(volume lineage, id cluster.BackupID) bool { return archived[c[id][volume].snapshot] })
}

// nextFull returns why a copy is kept for the sake of the next one; "" if another backup has a newer copy of each of
// its volumes, or if it is none.
func (p *pruning) nextFull(e catalog.Entry) string {
	of := p.world.copies[e.ID]
	if p.opts.AllowFull || len(of) == 0 {
		return ""
	}
	n := 0
	for volume := range of {
		if p.newest[volume] == e.ID {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the newest copy of %d of its %d volumes: the next copy would be full (--allow-full deletes it)",
		n, len(of))
}
