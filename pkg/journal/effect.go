package journal

import "github.com/tisnap/tisnap/pkg/cluster"

// FastRestore is the data of IntentFastRestore: snapshots and zones, each with each.
type FastRestore struct {
	Snapshots []cluster.SnapshotID `json:"snapshots"`
	Zones     []cluster.Zone       `json:"zones"`
}

// LeftRecovery is the data of ResultLeftRecovery: the cluster that the run takes out of recovery mode, by PD's id.
type LeftRecovery struct {
	ClusterID uint64 `json:"clusterID,string"`
}

// BackupTS is the data of ResultBackupTS.
type BackupTS struct {
	TS cluster.TS `json:"ts"`
}

// Volume is the data of ResultVolume: a volume that was made of a snapshot.
type Volume struct {
	Generation int                `json:"generation"` // how many client tokens were burned before
	Snapshot   cluster.SnapshotID `json:"snapshot"`
	Volume     cluster.VolumeID   `json:"volume"`
}
