package manifest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// FromBackupMeta makes a manifest of a backup that br made, so that it can be restored like one of ours.
// What br does not record is taken from the Kubernetes objects in the document, or is empty: MaxTS and
// AllocID are 0, a volume's type, IOPS and throughput unknown, and there is no digest to check. A document
// that br's own restore would refuse is Corrupt.
func FromBackupMeta(id cluster.BackupID, doc []byte) (*Manifest, error) {
	d, err := ParseBR(doc)
	if err == nil {
		err = d.Validate()
	}
	if err != nil {
		return nil, failure.Annotate(err, "read backupmeta", string(id))
	}
	m := &Manifest{
		APIVersion: APIVersion, Kind: Kind, ID: id,
		Run:  cluster.RunID("br-" + strconv.FormatUint(d.Cluster.ResolvedTS, 10)),
		Tool: ToolBR, FullBackupType: FullBackupType, Region: d.Region, BackupTS: cluster.TS(d.Cluster.ResolvedTS),
		Kubernetes:  Kubernetes{TidbCluster: d.Kubernetes.TidbCluster, PVCs: d.Kubernetes.PVCs, PVs: d.Kubernetes.PVs},
		ClusterMeta: doc,
	}
	m.CreatedAt = m.BackupTS.Time()
	m.CutStartedAt, m.CutEndedAt = m.CreatedAt, m.CreatedAt
	m.Source = cluster.Topology{
		Version: d.Cluster.Version, PDReplicas: d.PD.Replicas, TiDBReplicas: d.TiDB.Replicas,
	}
	if err := m.importCluster(); err != nil {
		return nil, failure.Annotate(err, "read backupmeta", string(id))
	}
	bound, err := bindings(d.Kubernetes.PVs)
	if err != nil {
		return nil, failure.Annotate(err, "read backupmeta", string(id))
	}
	var f faults
	for _, s := range d.TiKV.Stores {
		for _, v := range s.Volumes {
			_, ok := bound[v.ID]
			f.check(ok, "volume %s of store %d has no persistent volume, which has its size", v.ID, s.ID)
		}
		m.importStore(s, bound)
	}
	if err := f.err("read backupmeta", string(id)); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, failure.Annotate(err, "read backupmeta", string(id))
	}
	return m, nil
}

// importCluster reads the name and the id out of the TidbCluster.
func (m *Manifest) importCluster() error {
	var object struct {
		Metadata struct{ Name, Namespace string }
		Status   struct {
			ClusterID string `json:"clusterID"`
		}
	}
	if len(m.Kubernetes.TidbCluster) == 0 {
		return failure.New(failure.Corrupt, "", "", "no crd_tidb_cluster")
	}
	if err := json.Unmarshal(m.Kubernetes.TidbCluster, &object); err != nil {
		return failure.Wrap(err, failure.Corrupt, "read crd_tidb_cluster", "")
	}
	m.Source.Cluster = cluster.Name{Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}
	id, err := strconv.ParseUint(object.Status.ClusterID, 10, 64)
	m.Source.ClusterID = id
	return failure.Wrap(err, failure.Corrupt, "read cluster id", "")
}

// importStore adds a store and its snapshots; the pod comes from the PV of any of its volumes.
func (m *Manifest) importStore(s BRStore, bound map[string]binding) {
	store := cluster.Store{ID: cluster.StoreID(s.ID), Ordinal: -1}
	for _, v := range s.Volumes {
		b := bound[v.ID]
		volume := cluster.Volume{
			ID: cluster.VolumeID(v.ID), Role: cluster.Role(v.Role), MountPath: v.MountPath,
			PVC: b.claim, PV: b.volume, Zone: cluster.Zone(v.Zone), VolumeSpec: cluster.VolumeSpec{SizeGiB: b.sizeGiB},
		}
		if store.Pod == "" && b.pod != "" {
			store.Pod = b.pod
			if n, err := strconv.Atoi(b.pod[strings.LastIndexByte(b.pod, '-')+1:]); err == nil {
				store.Ordinal = n
			}
		}
		store.Volumes = append(store.Volumes, volume)
		snapshot := cluster.SnapshotID(v.SnapshotID)
		m.Snapshots = append(m.Snapshots, NewSnapshot(snapshot, store.ID, volume, time.Time{}))
	}
	m.Source.Stores = append(m.Source.Stores, store)
}

// binding is what a PV records about an EBS volume.
type binding struct {
	volume, claim, pod string
	sizeGiB            int64
}

// bindings finds the PV of each EBS volume by its CSI handle, or by the annotation that the Operator adds.
func bindings(pvs []json.RawMessage) (map[string]binding, error) {
	bound := map[string]binding{}
	for _, raw := range pvs {
		var pv struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
			Spec struct {
				Capacity struct{ Storage string }
				CSI      struct{ VolumeHandle string }
				ClaimRef struct{ Name string }
			}
		}
		if err := json.Unmarshal(raw, &pv); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "read persistent volume", "")
		}
		b := binding{
			volume: pv.Metadata.Name, claim: pv.Spec.ClaimRef.Name,
			pod: pv.Metadata.Annotations["tidb.pingcap.com/pod-name"], sizeGiB: gibibytes(pv.Spec.Capacity.Storage),
		}
		for _, id := range []string{pv.Metadata.Annotations[volumeIDAnnotation], pv.Spec.CSI.VolumeHandle} {
			if id != "" {
				bound[id] = b
			}
		}
	}
	return bound, nil
}

// gibibytes reads a Kubernetes quantity and rounds up, as the CSI driver does; 0 if it cannot be read.
func gibibytes(quantity string) int64 {
	const gib = 1 << 30
	for _, unit := range []struct {
		suffix string
		bytes  float64
	}{
		{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50},
		{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"", 1},
	} {
		digits, ok := strings.CutSuffix(quantity, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if bytes := n * unit.bytes; err == nil && bytes > 0 && bytes < 1<<60 {
			return (int64(bytes) + gib - 1) / gib
		}
		return 0
	}
	return 0
}
