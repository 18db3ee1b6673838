package manifest

import (
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Part is one backup of a VolumeBackup over several Kubernetes clusters: what it has of the whole that it was adopted
// into. Its storage keeps it, and its snapshots are that storage's.
type Part struct {
	Name     string            `json:"name"` // of its Kubernetes cluster, as the user calls it
	Cluster  cluster.Name      `json:"cluster"`
	Backup   cluster.BackupID  `json:"backup"`
	Run      cluster.RunID     `json:"run"`
	Tool     string            `json:"tool"`
	Storage  string            `json:"storage"`  // its id
	Location string            `json:"location"` // where it was when the part was adopted
	BackupTS cluster.TS        `json:"backupTS"`
	Stores   []cluster.StoreID `json:"stores"`
	// ManifestSHA256 is of the part's manifest, hexadecimal.
	ManifestSHA256 string     `json:"manifestSHA256"`
	Kubernetes     Kubernetes `json:"kubernetes"`
}

// Adopted reports whether the backup's snapshots are those of its parts, in whose storages they were made. The copy of
// such a backup has its own.
func (m *Manifest) Adopted() bool { return len(m.Parts) > 0 && m.CopyOf == nil }

// PartOf returns the part that has the store; nil of a backup that was cut as a whole.
func (m *Manifest) PartOf(store cluster.StoreID) *Part {
	for i := range m.Parts {
		if slices.Contains(m.Parts[i].Stores, store) {
			return &m.Parts[i]
		}
	}
	return nil
}

// KubernetesOf returns the objects of the Kubernetes cluster that the store was in.
func (m *Manifest) KubernetesOf(store cluster.StoreID) *Kubernetes {
	if p := m.PartOf(store); p != nil {
		return &p.Kubernetes
	}
	return &m.Kubernetes
}

// TaggedAs returns the backup that the tags of a store's snapshots name.
func (m *Manifest) TaggedAs(store cluster.StoreID) cluster.BackupID {
	if p := m.PartOf(store); p != nil && m.Adopted() {
		return p.Backup
	}
	return m.ID
}

// checkParts checks that each store is in exactly one part, if there are parts.
func (m *Manifest) checkParts(f *faults) {
	if len(m.Parts) == 0 {
		return
	}
	in := map[cluster.StoreID]string{}
	names := map[string]bool{}
	for _, p := range m.Parts {
		f.check(p.Name != "" && !names[p.Name], "two parts, or one without a name, are called %q", p.Name)
		names[p.Name] = true
		for _, id := range p.Stores {
			f.check(in[id] == "", "store %s is in the parts %s and %s", id, in[id], p.Name)
			in[id] = p.Name
		}
	}
	for _, s := range m.Source.Stores {
		f.check(in[s.ID] != "", "store %s is in no part", s.ID)
		delete(in, s.ID)
	}
	for id, name := range in {
		f.check(false, "part %s has store %s, which is unknown", name, id)
	}
}
