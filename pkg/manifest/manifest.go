package manifest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// The schema that this version reads and writes.
const (
	APIVersion     = "tisnap.io/v1"
	Kind           = "Manifest"
	FullBackupType = "aws-ebs" // br's word for a backup by volume snapshots
	ToolBR         = "br"      // Manifest.Tool of a backup that br made
)

// Manifest is everything that a restore has to know about a backup. Fields are added, never renamed;
// readers ignore those that they do not know. Timestamps are strings in JSON, as they do not fit a double.
type Manifest struct {
	APIVersion     string           `json:"apiVersion"`
	Kind           string           `json:"kind"`
	ID             cluster.BackupID `json:"id"`
	Run            cluster.RunID    `json:"run"`
	Tool           string           `json:"tool"` // version of the program that made it
	FullBackupType string           `json:"fullBackupType"`
	Region         string           `json:"region"` // AWS region of the snapshots
	// ZoneIDs is which place each zone of the volumes is, in the account of the backup: another account
	// may call it by another name. A backup of an older tisnap has none.
	ZoneIDs map[cluster.Zone]string `json:"zoneIds,omitempty"`

	// BackupTS is the resolved ts that was read inside the hold, before the cut: a restore returns to it.
	BackupTS cluster.TS `json:"backupTS"`
	// MaxTS is PD's timestamp right after the cut; no timestamp in the snapshots is higher. A restore
	// raises PD's oracle above it. 0 if it was not read (a backup made by br).
	MaxTS cluster.TS `json:"maxTS"`
	// AllocID is the largest store, region or peer id that was seen; 0 if it was not read.
	AllocID uint64 `json:"allocID,omitempty,string"`

	// Replicas is the smallest number of voters that a region had; 0 if it was not read (a backup made by br).
	Replicas int `json:"replicas,omitempty"`

	CreatedAt    time.Time `json:"createdAt"` // start of the run
	CutStartedAt time.Time `json:"cutStartedAt"`
	CutEndedAt   time.Time `json:"cutEndedAt"`

	Source     cluster.Topology `json:"source"`
	Snapshots  []Snapshot       `json:"snapshots"`
	Kubernetes Kubernetes       `json:"kubernetes"`
	// PDState is what PD keeps in its own store; nil in a backup of br or of an older tisnap.
	PDState *cluster.PDState `json:"pdState,omitempty"`
	// LogBackups are those of the source; empty also in a backup of br or of an older tisnap.
	LogBackups []LogBackup `json:"logBackups,omitempty"`
	// Tags are the user's labels for the backup; `tisnap prune --keep-tag` uses them.
	Tags []string `json:"tags,omitempty"`
	// Marks records where the regions' logs ended before the hold; nil if that was not read. An older tisnap ignores
	// the field and flashes back every region.
	Marks *Marks `json:"marks,omitempty"`
	// EarlyApply records whether a replica may be ahead of its own raft log; nil, as in a backup of br or of an older
	// tisnap, is unproven.
	EarlyApply *EarlyApply `json:"earlyApply,omitempty"`
	// HeldBy is the run of the process that held the cluster where it was another than the backup's: parts of one
	// backup have the same. Empty in a backup under its own hold.
	HeldBy cluster.RunID `json:"heldBy,omitempty"`
	// CopyOf is the backup of which this one is a copy, with snapshots of its own; nil of one that was cut. An older
	// tisnap ignores it, and refuses to restore the copy, since EC2 reports other volumes for its snapshots.
	CopyOf *CopyOf `json:"copyOf,omitempty"`
	// Parts are those of a VolumeBackup over several Kubernetes clusters, which this backup is made of; nil of one that
	// was cut as a whole. Kubernetes then has one TidbCluster made of theirs, and no claims. An older tisnap refuses to
	// restore it, since it finds no claims.
	Parts []Part `json:"parts,omitempty"`
	// ClusterMeta is the document that TiDB Operator handed to br, if it did. BackupMeta fills it in and
	// keeps all else that is in it.
	ClusterMeta json.RawMessage `json:"clusterMeta,omitempty"`

	// SealedAt comes from the seal (Open fills it in); it is zero in a manifest without one.
	SealedAt time.Time `json:"-"`
}

// CopyOf names a copy's source: the backup of the same id in another storage.
type CopyOf struct {
	Run            cluster.RunID `json:"run"`
	Tool           string        `json:"tool"`
	Storage        string        `json:"storage"`  // its id
	Location       string        `json:"location"` // where it was when the copy was made
	Region         string        `json:"region"`
	Account        string        `json:"account"`
	ManifestSHA256 string        `json:"manifestSHA256"` // of the source's manifest, hexadecimal
	// Signed means that it was, and that its manifest and signature are kept with the copy unless a nearer one's are.
	Signed bool `json:"signed,omitempty"`
	// SignatureSHA256 is the digest of that signature, hexadecimal; an older tisnap recorded none.
	SignatureSHA256 string `json:"signatureSHA256,omitempty"`
	// CopyOf is the source's own, if it was a copy, too: so the chain ends at the backup that was cut.
	CopyOf *CopyOf `json:"copyOf,omitempty"`
}

// Over names the regions and accounts that the data of a copy came through, the last first; "" if its source was cut.
// EC2 takes a copy of a copy for no later copy of the volume that came another way.
func (c *CopyOf) Over() string {
	if c == nil || c.CopyOf == nil {
		return ""
	}
	return strings.TrimSpace(c.Region + "/" + c.Account + " " + c.CopyOf.Over())
}

// FirstSigned is the nearest source that was signed, whose manifest is kept with the copy; nil if there is none.
func (c *CopyOf) FirstSigned() *CopyOf {
	for c != nil && !c.Signed {
		c = c.CopyOf
	}
	return c
}

// Unsigned is the chain without what was signed.
func (c *CopyOf) Unsigned() *CopyOf {
	if c == nil {
		return nil
	}
	out := *c
	out.Signed, out.SignatureSHA256, out.CopyOf = false, "", c.CopyOf.Unsigned()
	return &out
}

// Snapshot is one EBS snapshot with what its volume was like at the cut.
type Snapshot struct {
	ID        cluster.SnapshotID `json:"id"`
	Store     cluster.StoreID    `json:"store"`
	Volume    cluster.VolumeID   `json:"volume"`
	Role      cluster.Role       `json:"role"`
	MountPath string             `json:"mountPath"`
	Zone      cluster.Zone       `json:"zone"`
	cluster.VolumeSpec
	Encrypted bool      `json:"encrypted,omitempty"`
	KMSKey    string    `json:"kmsKey,omitempty"`
	StartedAt time.Time `json:"startedAt"` // EC2's start time
	// CopiedFrom is the source's snapshot of which this one is a copy, for which EC2 reports an arbitrary volume; "" of
	// one that was cut.
	CopiedFrom cluster.SnapshotID `json:"copiedFrom,omitempty"`
}

// Kubernetes holds whole objects as the API server gave them, unknown fields included.
type Kubernetes struct {
	TidbCluster json.RawMessage `json:"tidbCluster,omitempty"`
	// Objects are the Cluster, its groups and its TiKV instances, without status, of a cluster of TiDB Operator 2.x,
	// which has no TidbCluster. An older tisnap ignores them.
	Objects []json.RawMessage `json:"objects,omitempty"`
	PVCs    []json.RawMessage `json:"pvcs,omitempty"`
	PVs     []json.RawMessage `json:"pvs,omitempty"`
}

// Source returns the objects that a restore makes its target's from, as one: the TidbCluster, or a List of Objects.
func (k *Kubernetes) Source() (json.RawMessage, error) {
	if len(k.Objects) == 0 {
		return k.TidbCluster, nil
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": k.Objects}
	raw, err := json.Marshal(list)
	return raw, failure.Wrap(err, failure.Corrupt, "read the cluster's objects", "")
}

// Operator2 is what Operator returns for TiDB Operator 2.x.
const Operator2 = "2.x"

// Operator returns the generation of TiDB Operator that made the cluster: "" for 1.x, or Operator2.
func (k *Kubernetes) Operator() string {
	if len(k.Objects) > 0 {
		return Operator2
	}
	return ""
}

// NewSnapshot describes the snapshot id of volume v of a store as v is now.
func NewSnapshot(id cluster.SnapshotID, store cluster.StoreID, v cluster.Volume, startedAt time.Time) Snapshot {
	return Snapshot{
		ID: id, Store: store, Volume: v.ID, Role: v.Role, MountPath: v.MountPath, Zone: v.Zone,
		VolumeSpec: v.VolumeSpec,
		Encrypted:  v.Encrypted, KMSKey: v.KMSKey, StartedAt: startedAt.UTC(),
	}
}

// SnapshotIDs lists all snapshots in the manifest's order.
func (m *Manifest) SnapshotIDs() []cluster.SnapshotID {
	ids := make([]cluster.SnapshotID, 0, len(m.Snapshots))
	for _, s := range m.Snapshots {
		ids = append(ids, s.ID)
	}
	return ids
}

// SnapshotsOf lists a store's snapshots in the manifest's order; empty for a store that it does not have.
func (m *Manifest) SnapshotsOf(store cluster.StoreID) []Snapshot {
	var of []Snapshot
	for _, s := range m.Snapshots {
		if s.Store == store {
			of = append(of, s)
		}
	}
	return of
}

// SizeGiB is the sum of the sizes of all volumes, not of the data on them.
func (m *Manifest) SizeGiB() int64 {
	var sum int64
	for _, s := range m.Snapshots {
		sum += s.SizeGiB
	}
	return sum
}
