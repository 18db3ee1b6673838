package manifest

import "encoding/json"

// BRMeta is the document that grows from clustermeta (by the Operator) over backupmeta (by br's backup) to
// restoremeta (by br's restore). Members that are not named here are kept, at every level.
type BRMeta struct {
	TiKV       BRTiKV
	PD         BRReplicas
	TiDB       BRReplicas
	Kubernetes BRKubernetes
	Options    json.RawMessage
	Cluster    *BRCluster // "cluster_info"; nil before the backup
	Region     string

	unknown unknown
}

// BRTiKV is the member "tikv".
type BRTiKV struct {
	Replicas int
	Stores   []BRStore

	unknown unknown
}

// BRStore is a store with its volumes.
type BRStore struct {
	ID      uint64
	Volumes []BRVolume

	unknown unknown
}

// BRVolume is a volume and what was made from it.
type BRVolume struct {
	ID              string // "volume_id" in the source cluster
	Role            string // "type": the TiKV config key of the folder that it holds
	MountPath       string
	SnapshotID      string // "" before the backup
	RestoreVolumeID string // "" before the restore
	Zone            string // "volume_az": of the source before, of the target after the restore

	unknown unknown
}

// BRReplicas is the member "pd" or "tidb".
type BRReplicas struct {
	Replicas int

	unknown unknown
}

// BRKubernetes holds whole objects.
type BRKubernetes struct {
	PVCs        []json.RawMessage
	PVs         []json.RawMessage
	TidbCluster json.RawMessage // "crd_tidb_cluster"
	Options     json.RawMessage

	unknown unknown
}

// BRCluster is the member "cluster_info".
type BRCluster struct {
	Version        string // "cluster_version"
	FullBackupType string
	ResolvedTS     uint64
	Replicas       map[string]uint64

	unknown unknown
}

func (d *BRMeta) members() []member {
	return []member{
		{name: "cluster_info", value: &d.Cluster, optional: true},
		{name: "tikv", value: &d.TiKV},
		{name: "pd", value: &d.PD},
		{name: "tidb", value: &d.TiDB},
		{name: "kubernetes", value: &d.Kubernetes},
		{name: "options", value: &d.Options},
		{name: "region", value: &d.Region, optional: true},
	}
}

func (t *BRTiKV) members() []member {
	return []member{{name: "replicas", value: &t.Replicas}, {name: "stores", value: &t.Stores}}
}

func (s *BRStore) members() []member {
	return []member{{name: "store_id", value: &s.ID}, {name: "volumes", value: &s.Volumes}}
}

func (v *BRVolume) members() []member {
	return []member{
		{name: "volume_id", value: &v.ID},
		{name: "type", value: &v.Role},
		{name: "mount_path", value: &v.MountPath},
		{name: "snapshot_id", value: &v.SnapshotID},
		{name: "restore_volume_id", value: &v.RestoreVolumeID},
		{name: "volume_az", value: &v.Zone, optional: true},
	}
}

func (r *BRReplicas) members() []member {
	return []member{{name: "replicas", value: &r.Replicas}}
}

func (k *BRKubernetes) members() []member {
	return []member{
		{name: "pvcs", value: &k.PVCs},
		{name: "pvs", value: &k.PVs},
		{name: "crd_tidb_cluster", value: &k.TidbCluster},
		{name: "options", value: &k.Options},
	}
}

func (c *BRCluster) members() []member {
	return []member{
		{name: "cluster_version", value: &c.Version},
		{name: "full_backup_type", value: &c.FullBackupType},
		{name: "resolved_ts", value: &c.ResolvedTS},
		{name: "replicas", value: &c.Replicas},
	}
}

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (d BRMeta) MarshalJSON() ([]byte, error) { return d.unknown.encode(d.members()) }

// UnmarshalJSON keeps unknown members.
func (d *BRMeta) UnmarshalJSON(b []byte) error { return d.unknown.decode(b, d.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (t BRTiKV) MarshalJSON() ([]byte, error) { return t.unknown.encode(t.members()) }

// UnmarshalJSON keeps unknown members.
func (t *BRTiKV) UnmarshalJSON(b []byte) error { return t.unknown.decode(b, t.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (s BRStore) MarshalJSON() ([]byte, error) { return s.unknown.encode(s.members()) }

// UnmarshalJSON keeps unknown members.
func (s *BRStore) UnmarshalJSON(b []byte) error { return s.unknown.decode(b, s.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (v BRVolume) MarshalJSON() ([]byte, error) { return v.unknown.encode(v.members()) }

// UnmarshalJSON keeps unknown members.
func (v *BRVolume) UnmarshalJSON(b []byte) error { return v.unknown.decode(b, v.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (r BRReplicas) MarshalJSON() ([]byte, error) { return r.unknown.encode(r.members()) }

// UnmarshalJSON keeps unknown members.
func (r *BRReplicas) UnmarshalJSON(b []byte) error { return r.unknown.decode(b, r.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (k BRKubernetes) MarshalJSON() ([]byte, error) { return k.unknown.encode(k.members()) }

// UnmarshalJSON keeps unknown members.
func (k *BRKubernetes) UnmarshalJSON(b []byte) error { return k.unknown.decode(b, k.members()) }

// MarshalJSON writes br's members in br's names, and the unknown ones.
func (c BRCluster) MarshalJSON() ([]byte, error) { return c.unknown.encode(c.members()) }

// UnmarshalJSON keeps unknown members.
func (c *BRCluster) UnmarshalJSON(b []byte) error { return c.unknown.decode(b, c.members()) }
