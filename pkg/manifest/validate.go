package manifest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// maxFaults bounds an error's text; a broken manifest of 300 stores has as many faults.
const maxFaults = 10

// faults gathers what is invalid, so that one error shows all of it.
type faults struct {
	seen []string
}

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		f.seen = append(f.seen, fmt.Sprintf(format, args...))
	}
}

func (f *faults) err(op, target string) error {
	if len(f.seen) == 0 {
		return nil
	}
	shown, more := f.seen, ""
	if len(shown) > maxFaults {
		shown, more = shown[:maxFaults], fmt.Sprintf("; and %d more", len(f.seen)-maxFaults)
	}
	return failure.New(failure.Corrupt, op, target, "%s%s", strings.Join(shown, "; "), more)
}

// Validate checks that m is complete and that its parts agree: each volume of each store has exactly one
// snapshot, each store a data volume, no id occurs twice. An error is Corrupt and lists up to ten faults.
func (m *Manifest) Validate() error {
	var f faults
	m.checkHead(&f)
	volumes := m.checkStores(&f)
	m.checkSnapshots(&f, volumes)
	m.checkParts(&f)
	return f.err("check manifest", string(m.ID))
}

func (m *Manifest) checkHead(f *faults) {
	f.check(m.APIVersion == APIVersion && m.Kind == Kind, "schema is %s %s", m.APIVersion, m.Kind)
	f.check(m.FullBackupType == FullBackupType, "full backup type is %q, want %q", m.FullBackupType, FullBackupType)
	if err := CheckID(m.ID); err != nil {
		f.check(false, "id %q is not one", m.ID)
	}
	f.check(m.Run != "", "no run id")
	f.check(m.Source.Cluster.Name != "" && m.Source.Cluster.Namespace != "", "no cluster name")
	f.check(m.Source.ClusterID != 0, "cluster id is 0")
	f.check(isVersion(m.Source.Version), "version of TiKV is %q", m.Source.Version)
	f.check(m.BackupTS != 0, "backup ts is 0")
	f.check(m.MaxTS == 0 || m.MaxTS >= m.BackupTS, "highest ts %s is below the backup ts %s", m.MaxTS, m.BackupTS)
	f.check(!m.CutEndedAt.Before(m.CutStartedAt), "the cut ended before it started")
}

type owner struct {
	store  cluster.StoreID
	volume cluster.Volume
}

func (m *Manifest) checkStores(f *faults) map[cluster.VolumeID]owner {
	f.check(len(m.Source.Stores) > 0, "no stores")
	stores := map[cluster.StoreID]bool{}
	volumes := map[cluster.VolumeID]owner{}
	for _, s := range m.Source.Stores {
		f.check(s.ID != 0, "a store has id 0")
		f.check(!stores[s.ID], "store %s occurs twice", s.ID)
		stores[s.ID] = true
		roles := map[cluster.Role]bool{}
		for _, v := range s.Volumes {
			f.check(v.ID != "", "a volume of store %s has no id", s.ID)
			_, twice := volumes[v.ID]
			f.check(!twice, "volume %s occurs twice", v.ID)
			f.check(!roles[v.Role], "store %s has two volumes for %s", s.ID, v.Role)
			roles[v.Role] = true
			volumes[v.ID] = owner{store: s.ID, volume: v}
		}
		f.check(roles[cluster.RoleData], "store %s has no data volume (%s)", s.ID, cluster.RoleData)
	}
	return volumes
}

func (m *Manifest) checkSnapshots(f *faults, volumes map[cluster.VolumeID]owner) {
	f.check(len(m.Snapshots) > 0, "no snapshots")
	ids := map[cluster.SnapshotID]bool{}
	taken := map[cluster.VolumeID]bool{}
	for _, s := range m.Snapshots {
		f.check(s.ID != "", "a snapshot of volume %s has no id", s.Volume)
		f.check(!ids[s.ID], "snapshot %s occurs twice", s.ID)
		f.check(!taken[s.Volume], "volume %s has two snapshots", s.Volume)
		ids[s.ID], taken[s.Volume] = true, true
		of, ok := volumes[s.Volume]
		f.check(ok, "snapshot %s is of volume %q, which no store has", s.ID, s.Volume)
		if !ok {
			continue
		}
		f.check(of.store == s.Store, "snapshot %s is of store %s, its volume of store %s", s.ID, s.Store, of.store)
		f.check(of.volume.Role == s.Role, "snapshot %s has role %q, its volume has %q", s.ID, s.Role, of.volume.Role)
		f.check(s.SizeGiB > 0, "snapshot %s has size %d GiB", s.ID, s.SizeGiB)
	}
	for _, st := range m.Source.Stores {
		for _, v := range st.Volumes {
			f.check(taken[v.ID], "volume %s of store %s has no snapshot", v.ID, st.ID)
		}
	}
}

// isVersion accepts what PD and images call a version: "8.5.0", "v8.5.0", "7.6.0-alpha-1".
func isVersion(s string) bool {
	return regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`).MatchString(s)
}
