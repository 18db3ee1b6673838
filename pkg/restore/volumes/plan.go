package volumes

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Volume is one volume to restore and its destination.
type Volume struct {
	Store    cluster.StoreID    `json:"store"`
	Ordinal  int                `json:"ordinal"` // of the target's pod
	Role     cluster.Role       `json:"role"`
	Mount    string             `json:"mountPath"`
	Snapshot cluster.SnapshotID `json:"snapshot"`
	Zone     cluster.Zone       `json:"zone"`
	Spec     cluster.VolumeSpec `json:"spec"`
	// Encrypted and KMSKey are the volume's: the snapshot's, or those chosen for it.
	Encrypted bool             `json:"encrypted,omitempty"`
	KMSKey    string           `json:"kmsKey,omitempty"`
	ID        cluster.VolumeID `json:"id"` // empty until it is made
	// Seconds is how long it took to become available.
	Seconds float64 `json:"seconds,omitempty"`
	// Initialized is the share of its data on the volume when the restore ends, in percent; nil if EC2 does not report
	// it.
	Initialized *int `json:"initializedPercent,omitempty"`
	// After is its profile once the cluster serves; nil keeps it.
	After *cluster.VolumeSpec `json:"after,omitempty"`

	// Filled is the claim of a CSI driver that is filled with it, in place of a volume of EC2; nil without one.
	Filled *kube.FilledClaim `json:"filled,omitempty"`
	// Claim and Object are the source's PVC and PV, Names the target's.
	Claim, Object json.RawMessage `json:"-"`
	Names         kube.Names      `json:"-"`

	source     ebs.Snapshot // as EC2 describes it
	sizeGiB    int64        // of the snapshot
	encrypt    bool         // although its snapshot is not encrypted
	generation int          // of its client token
	modified   bool
}

// planVolumes plans each snapshot's volume and its pod. A store's volumes stay together: stores get the target's
// ordinals in the order of their own.
func planVolumes(
	m *manifest.Manifest, wanted cluster.VolumeSpec, kmsKey string, zones map[cluster.Zone]cluster.Zone,
) ([]Volume, error) {
	var out []Volume
	for ordinal, st := range ByOrdinal(m.Source.Stores) {
		from := m.KubernetesOf(st.ID)
		claims, objects := byName(from.PVCs), byName(from.PVs)
		for _, snap := range m.SnapshotsOf(st.ID) {
			target := "store " + st.ID.String() + " " + cmp.Or(string(snap.Role), snap.MountPath)
			spec, err := ebs.ResolveSpec(wanted, snap.VolumeSpec, snap.SizeGiB)
			if err != nil {
				return nil, failure.Annotate(err, "plan volume", target)
			}
			v := Volume{
				Store: st.ID, Ordinal: ordinal, Role: snap.Role, Mount: snap.MountPath, Snapshot: snap.ID,
				Zone: cmp.Or(zones[snap.Zone], snap.Zone), Spec: spec,
				Encrypted: snap.Encrypted || kmsKey != "", KMSKey: cmp.Or(kmsKey, snap.KMSKey),
				sizeGiB: snap.SizeGiB, generation: 1,
			}
			for _, source := range st.Volumes {
				if source.ID == snap.Volume {
					v.Claim, v.Object = claims[source.PVC], objects[source.PV]
				}
			}
			if v.Claim == nil || v.Object == nil {
				return nil, failure.New(failure.Corrupt, "plan volume", target, "the backup holds no PVC or PV for it")
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// PlanClaims plans a volume of a CSI driver for each snapshot, and where each source zone's go; "" keeps the zone.
// Their kind is their StorageClass's: only their size is the source's.
func PlanClaims(m *manifest.Manifest, zones map[cluster.Zone]cluster.Zone) (Plan, error) {
	planned, err := planVolumes(m, cluster.VolumeSpec{}, "", zones)
	for i := range planned {
		v := &planned[i]
		v.Spec, v.Encrypted, v.KMSKey = cluster.VolumeSpec{SizeGiB: v.Spec.SizeGiB}, false, ""
	}
	return Plan{Volumes: planned}, err
}

// ByOrdinal returns the stores in the order of their pods: their indexes are the target's ordinals.
func ByOrdinal(stores []cluster.Store) []cluster.Store {
	return slices.SortedFunc(slices.Values(stores), func(a, b cluster.Store) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.ID, b.ID))
	})
}

// byName indexes whole Kubernetes objects by metadata.name.
func byName(objects []json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, o := range objects {
		var meta struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(o, &meta) == nil {
			out[meta.Metadata.Name] = o
		}
	}
	return out
}
