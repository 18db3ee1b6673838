package manifest

import (
	"encoding/json"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// BackupMeta gives br's backupmeta document of m: compact JSON, one line. If m holds the Operator's
// clustermeta, that is filled in and all else in it stays; otherwise the document is made from m alone.
func BackupMeta(m *Manifest) ([]byte, error) {
	d := newBRMeta(m)
	if len(m.ClusterMeta) > 0 {
		var err error
		if d, err = ParseBR(m.ClusterMeta); err != nil {
			return nil, failure.Annotate(err, "write backupmeta", string(m.ID))
		}
	}
	if err := d.Fill(m); err != nil {
		return nil, err
	}
	return d.Encode()
}

// ParseBR reads a clustermeta, backupmeta or restoremeta. What is not JSON, or has members of another
// type than br's, is Corrupt. It does not check the content: see Validate.
func ParseBR(doc []byte) (*BRMeta, error) {
	d := new(BRMeta)
	if err := json.Unmarshal(doc, d); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read br document", "")
	}
	return d, nil
}

// Encode gives the document as br writes it: compact JSON, unknown members kept.
func (d *BRMeta) Encode() ([]byte, error) {
	doc, err := json.Marshal(d)
	return doc, failure.Wrap(err, failure.Corrupt, "write br document", "")
}

// Validate refuses what br's restore refuses in a backupmeta, and volumes without a snapshot: Corrupt.
func (d *BRMeta) Validate() error {
	var f faults
	if d.Cluster == nil {
		f.check(false, "no cluster_info")
	} else {
		f.check(isVersion(d.Cluster.Version), "cluster_version is %q", d.Cluster.Version)
		f.check(d.Cluster.ResolvedTS != 0, "resolved_ts is 0")
		f.check(d.Cluster.FullBackupType == FullBackupType, "full_backup_type is %q, want %q",
			d.Cluster.FullBackupType, FullBackupType)
	}
	f.check(len(d.TiKV.Stores) > 0, "no TiKV stores")
	elsewhere, err := d.Elsewhere()
	if err != nil {
		return err
	}
	// Of a cluster in several Kubernetes clusters, replicas is that of this part or of all.
	f.check(d.TiKV.Replicas == len(d.TiKV.Stores) || d.TiKV.Replicas == len(d.TiKV.Stores)+len(elsewhere),
		"%d TiKV stores, but replicas is %d", len(d.TiKV.Stores), d.TiKV.Replicas)
	for _, s := range d.TiKV.Stores {
		f.check(len(s.Volumes) > 0, "store %d has no volumes", s.ID)
		for _, v := range s.Volumes {
			f.check(v.SnapshotID != "", "volume %s of store %d has no snapshot", v.ID, s.ID)
		}
	}
	return f.err("check backupmeta", "")
}

// Fill enters what a backup adds to a clustermeta: cluster_info, region, and the snapshot and zone of each
// volume. The document and m must have the same stores and volumes, else it is Corrupt and unchanged.
func (d *BRMeta) Fill(m *Manifest) error {
	type place struct {
		store  cluster.StoreID
		volume cluster.VolumeID
	}
	snapshots := map[place]Snapshot{}
	for _, s := range m.Snapshots {
		snapshots[place{s.Store, s.Volume}] = s
	}
	var f faults
	volumes := 0
	for _, s := range d.TiKV.Stores {
		for _, v := range s.Volumes {
			volumes++
			_, ok := snapshots[place{cluster.StoreID(s.ID), cluster.VolumeID(v.ID)}]
			f.check(ok, "volume %s of store %d has no snapshot", v.ID, s.ID)
		}
	}
	f.check(volumes == len(m.Snapshots), "%d volumes, but %d snapshots were taken", volumes, len(m.Snapshots))
	if err := f.err("write backupmeta", string(m.ID)); err != nil {
		return err
	}
	for _, s := range d.TiKV.Stores {
		for i := range s.Volumes {
			v := &s.Volumes[i]
			snapshot := snapshots[place{cluster.StoreID(s.ID), cluster.VolumeID(v.ID)}]
			v.SnapshotID, v.Zone = string(snapshot.ID), string(snapshot.Zone)
		}
	}
	if d.Cluster == nil {
		d.Cluster = new(BRCluster)
	}
	d.Cluster.Version = strings.TrimPrefix(m.Source.Version, "v")
	d.Cluster.FullBackupType = FullBackupType
	d.Cluster.ResolvedTS = uint64(m.BackupTS)
	if d.Cluster.Replicas == nil {
		d.Cluster.Replicas = map[string]uint64{"tikv": uint64(len(m.Source.Stores))}
	}
	d.Region = m.Region
	return nil
}

// SetRestoreVolume enters the volume that was made from a snapshot, and its zone, wherever the snapshot
// occurs. It reports whether it occurs at all.
func (d *BRMeta) SetRestoreVolume(snapshot cluster.SnapshotID, volume cluster.VolumeID, zone cluster.Zone) bool {
	found := false
	for _, s := range d.TiKV.Stores {
		for i := range s.Volumes {
			if v := &s.Volumes[i]; v.SnapshotID == string(snapshot) {
				v.RestoreVolumeID, v.Zone, found = string(volume), string(zone), true
			}
		}
	}
	return found
}

// newBRMeta makes the clustermeta that the Operator would have written for m's cluster.
func newBRMeta(m *Manifest) *BRMeta {
	d := &BRMeta{
		TiKV: BRTiKV{Replicas: len(m.Source.Stores)},
		PD:   BRReplicas{Replicas: m.Source.PDReplicas},
		TiDB: BRReplicas{Replicas: m.Source.TiDBReplicas},
		Kubernetes: BRKubernetes{
			PVCs: m.Kubernetes.PVCs, PVs: volumeNamed(m.Kubernetes.PVs), TidbCluster: m.Kubernetes.TidbCluster,
		},
	}
	for _, s := range m.Source.Stores {
		store := BRStore{ID: uint64(s.ID)}
		for _, v := range s.Volumes {
			store.Volumes = append(store.Volumes, BRVolume{
				ID: string(v.ID), Role: string(v.Role), MountPath: v.MountPath,
			})
		}
		d.TiKV.Stores = append(d.TiKV.Stores, store)
	}
	return d
}
