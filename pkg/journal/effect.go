package journal

import "github.com/tisnap/tisnap/pkg/cluster"

// FastRestore is the data of IntentFastRestore: every pair of these snapshots and zones.
type FastRestore struct {
	Snapshots []cluster.SnapshotID `json:"snapshots"`
	Zones     []cluster.Zone       `json:"zones"`
}

// GivenTarget is the data of StepCreateCluster's end: a target that was made for the restore by others.
type GivenTarget struct {
	UID string `json:"uid,omitempty"` // of the TidbCluster; "" if the run made the target
}

// LeftRecovery is the data of IntentLeaveRecovery: the cluster that the run takes out of recovery mode, by PD's id, and
// what was done with its regions, which no later process can find out. Older versions noted no regions.
type LeftRecovery struct {
	ClusterID uint64          `json:"clusterID,string"`
	Regions   ResolvedRegions `json:"regions,omitzero"`
}

// ResolvedRegions are counts of regions, and how much longer the flashback of all would have taken.
type ResolvedRegions struct {
	Total        int     `json:"total"`
	Unchanged    int     `json:"unchanged"`
	Flashed      int     `json:"flashed"`
	Checked      int     `json:"checked,omitempty"`
	SavedSeconds float64 `json:"savedSeconds,omitempty"`
}

// BackupTS is the data of ResultBackupTS.
type BackupTS struct {
	TS cluster.TS `json:"ts"`
}

// Leases is the data of IntentLeases: how long a store that has become unreachable may stay held.
type Leases struct {
	LeaseSeconds   float64 `json:"leaseSeconds"`   // of one lease, which is renewed
	MaxHoldSeconds float64 `json:"maxHoldSeconds"` // from the first pause on; no lease is renewed after it
}

// Put is the data of ResultPut: all blocks of a volume's first segments are on a snapshot.
type Put struct {
	Snapshot cluster.SnapshotID `json:"snapshot"`
	Segments int                `json:"segments"`
}

// FillVolumes is the data of IntentFillVolumes.
type FillVolumes struct {
	Archive    string `json:"archive"`
	Repository string `json:"repository"`
	Volumes    int    `json:"volumes"`
	// Zones are where the volumes of each store are; none if the target's nodes have no zones.
	Zones map[cluster.StoreID]cluster.Zone `json:"zones,omitempty"`
	// Classes are the StorageClasses of the volumes, by the name that these ask for, "" for the default one; none in
	// journals of versions that did not record them.
	Classes map[string]StorageClass `json:"classes,omitempty"`
}

// StorageClass is what a volume depends on of one.
type StorageClass struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	Digest string `json:"digest"` // of its parameters, and of where and when it makes volumes
}

// Volume is the data of ResultVolume: a volume that was made of a snapshot.
type Volume struct {
	Generation int                `json:"generation"` // how many client tokens were burned before
	Snapshot   cluster.SnapshotID `json:"snapshot"`
	Volume     cluster.VolumeID   `json:"volume"`
}

// CopiedSnapshot is the data of ResultCopy and ResultCopied.
type CopiedSnapshot struct {
	Snapshot cluster.SnapshotID `json:"snapshot"`
	Copy     cluster.SnapshotID `json:"copy"`
	// Volume was the snapshot's; "" in journals of versions that did not record it.
	Volume cluster.VolumeID `json:"volume,omitempty"`
	Over   string           `json:"over,omitempty"` // see manifest.CopyOf
}
