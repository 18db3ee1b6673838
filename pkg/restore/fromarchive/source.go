package fromarchive

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Source is an archived backup.
type Source struct {
	Repository *repository.Repository
	ID         string // of the archive
	Archive    *format.Archive
	// Blocks writes snapshots, in the region of the restore.
	Blocks ebsdirect.Target
}

// Request returns what a process that resumes the restore must have been asked for, too.
func (s *Source) Request() map[string]string {
	return map[string]string{"from-archive": s.ID, "repo": s.Repository.ID().String()}
}

// Region is where the archived backup was made; "" if it does not say.
func (s *Source) Region() (string, error) {
	m, err := s.decode()
	if err != nil {
		return "", err
	}
	return m.Region, nil
}

// decode reads the backup's manifest. An import has none, and is no backup: Usage.
func (s *Source) decode() (*manifest.Manifest, error) {
	if s.Archive.Imported() {
		return nil, failure.New(failure.Usage, "restore from archive", s.ID,
			"it is an import of volumes, and no archive of a backup: it has no backup's manifest").
			WithHint("name the archive of a backup, or write the volumes by `tisnap archive cat`, `fill` or `restore`")
	}
	m, err := manifest.Decode(s.Archive.Manifest.Data)
	return m, failure.Annotate(err, "read the archive's manifest", s.ID)
}

// Bytes is how much is written, LargestBytes how much of it on one snapshot.
func (s *Source) Bytes() (all, largest int64) {
	for _, store := range s.Archive.Stores {
		for _, v := range store.Volumes {
			bytes := v.Counts.Saved * volume.BlockSize
			all, largest = all+bytes, max(largest, bytes)
		}
	}
	return all, largest
}

// Manifest returns the archived backup's manifest as one of snapshots in a region, each by the id of the one that was
// archived: Made has what takes their places. What is known of those alone is left out: their key and the time of
// their start; and the marks, which no archive has. An archive of other volumes than the manifest's is Corrupt.
func (s *Source) Manifest(region string) (*manifest.Manifest, error) {
	m, err := s.decode()
	if err != nil {
		return nil, err
	}
	volumes := s.volumes()
	for i := range m.Snapshots {
		snap := &m.Snapshots[i]
		v, there := volumes[snap.ID]
		if !there || v.Store != snap.Store || v.Role != string(snap.Role) || v.Size != snap.SizeGiB<<30 {
			return nil, failure.New(failure.Corrupt, "read the archive's manifest", s.ID,
				"the archive does not have snapshot %s as %s of store %s, with %d GiB", snap.ID, snap.Role, snap.Store,
				snap.SizeGiB)
		}
		delete(volumes, snap.ID)
		snap.StartedAt, snap.KMSKey = time.Time{}, ""
	}
	if string(m.ID) != s.Archive.Backup || len(volumes) > 0 || len(m.Snapshots) == 0 {
		return nil, failure.New(failure.Corrupt, "read the archive's manifest", s.ID,
			"it is of backup %s with %d snapshots, and the archive of %s with %d more", m.ID, len(m.Snapshots),
			s.Archive.Backup, len(volumes))
	}
	m.Region, m.Marks = region, nil
	for i := range m.Parts {
		m.Parts[i].Backup = m.ID // as the tags of the snapshots that are made
	}
	return m, nil
}

// archived is a volume of the archive.
type archived struct {
	format.Volume
	Store cluster.StoreID
}

// name is the volume in messages, and in its token.
func (v *archived) name() string { return fmt.Sprintf("store %s %s", v.Store, v.Role) }

// volumes are the archive's, by the snapshot that each was read from.
func (s *Source) volumes() map[cluster.SnapshotID]archived {
	out := map[cluster.SnapshotID]archived{}
	for _, store := range s.Archive.Stores {
		for _, v := range store.Volumes {
			out[cluster.SnapshotID(v.Source)] = archived{v, cluster.StoreID(store.ID)}
		}
	}
	return out
}

// Made maps each archived snapshot to the one that was made in its place. It is journalled.
type Made map[cluster.SnapshotID]cluster.SnapshotID

// Manifest returns a manifest of the snapshots that were made. One that was not is Corrupt.
func (m Made) Manifest(of *manifest.Manifest) (*manifest.Manifest, error) {
	out := *of
	out.Snapshots = slices.Clone(of.Snapshots)
	for i := range out.Snapshots {
		snap := &out.Snapshots[i]
		made, there := m[snap.ID]
		if !there {
			return nil, failure.New(failure.Corrupt, "name snapshots", string(snap.ID),
				"none was made in its place: %d of %d were made", len(m), len(out.Snapshots))
		}
		snap.ID = made
	}
	return &out, nil
}

// IDs are the snapshots that were made.
func (m Made) IDs() []cluster.SnapshotID { return slices.Sorted(maps.Values(m)) }
