package kube

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// recorded is br's clustermeta as the real Operator wrote it.
type recorded struct {
	Kubernetes struct {
		PVCs    []json.RawMessage `json:"pvcs"`
		PVs     []json.RawMessage `json:"pvs"`
		Cluster json.RawMessage   `json:"crd_tidb_cluster"`
	} `json:"kubernetes"`
}

func readRecorded(t *testing.T) recorded {
	t.Helper()
	b, err := os.ReadFile("testdata/clustermeta.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(b, &r))
	return r
}

func TestRestoredObjects_Recorded_KeepEverythingButNamesIDsZoneAndSize(t *testing.T) {
	t.Parallel()
	r := readRecorded(t)
	pvc, pv, err := restoredObjects(RestoredVolume{
		Cluster: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "R/1", Ordinal: 7, Role: cluster.RoleData,
		Volume: "vol-0new", Zone: "eu-west-1b", SizeGiB: 20, Claim: r.Kubernetes.PVCs[1], Object: r.Kubernetes.PVs[1],
	})
	require.NoError(t, err)
	assert.Equal(t, metav1.ObjectMeta{
		Name: "tikv-dst-tikv-7", Namespace: "prod",
		Labels: map[string]string{
			"app.kubernetes.io/component": "tikv", "app.kubernetes.io/instance": "dst",
			"app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/name": "tidb-cluster",
			"tidb.pingcap.com/pod-name": "dst-tikv-7", "tidb.pingcap.com/store-id": "5", runmark.Key: "r-1",
		},
		Annotations: map[string]string{
			"tidb.pingcap.com/pod-name":                     "dst-tikv-7",
			"volume.beta.kubernetes.io/storage-provisioner": "ebs.csi.aws.com",
			"volume.kubernetes.io/storage-provisioner":      "ebs.csi.aws.com", runmark.Key: "R/1",
		},
	}, pvc.ObjectMeta)
	assert.Equal(t, "tisnap-r-1-storage-data-dir-7", pvc.Spec.VolumeName)
	assert.Equal(t, "20Gi", pvc.Spec.Resources.Requests.Storage().String())
	assert.Equal(t, "ebs-sc", *pvc.Spec.StorageClassName)
	assert.Empty(t, pvc.Status)

	assert.Equal(t, metav1.ObjectMeta{
		Name: "tisnap-r-1-storage-data-dir-7",
		Labels: map[string]string{
			"app.kubernetes.io/component": "tikv", "app.kubernetes.io/instance": "dst",
			"app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/name": "tidb-cluster",
			"app.kubernetes.io/namespace": "prod", "tidb.pingcap.com/store-id": "5", runmark.Key: "r-1",
		},
		Annotations: map[string]string{
			"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com", "tidb.pingcap.com/pod-name": "dst-tikv-7",
			"tikv-volume-restore/volume-id": "vol-0new", runmark.Key: "R/1",
		},
	}, pv.ObjectMeta)
	assert.Equal(t, "vol-0new", pv.Spec.CSI.VolumeHandle)
	assert.Equal(t, "ext4", pv.Spec.CSI.FSType)
	assert.Equal(t, "20Gi", pv.Spec.Capacity.Storage().String())
	assert.Equal(t, &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "prod", Name: "tikv-dst-tikv-7"}, pv.Spec.ClaimRef)
	assert.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
}

func TestZoneAffinity_EachVariantOfTheSource_IsRewritten(t *testing.T) {
	t.Parallel()
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	affinity := func(terms ...[]corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
		a := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
		for _, e := range terms {
			a.Required.NodeSelectorTerms = append(a.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: e})
		}
		return a
	}
	type exprs = []corev1.NodeSelectorRequirement
	both := affinity(exprs{in(zoneKey, "us-west-2b")}, exprs{in(ebsZoneKey, "us-west-2b")})
	for name, c := range map[string]struct{ from, want *corev1.VolumeNodeAffinity }{
		"none":     {nil, both},
		"csi":      {affinity(exprs{in(ebsZoneKey, "us-east-1a")}), both},
		"standard": {affinity(exprs{in(zoneKey, "us-east-1a")}), both},
		"both":     {affinity(exprs{in(zoneKey, "us-east-1a"), in(ebsZoneKey, "us-east-1a")}), both},
		"deprecated, other region": {
			affinity(exprs{in(oldZoneKey, "us-east-1a"), in(oldRegionKey, "us-east-1")}),
			affinity(exprs{in(zoneKey, "us-west-2b")}, exprs{in(ebsZoneKey, "us-west-2b")}, exprs{in(oldZoneKey, "us-west-2b")}),
		},
		"other requirements": {
			affinity(exprs{in(zoneKey, "us-west-2a"), in(regionKey, "us-west-2"), in("kubernetes.io/os", "linux")}),
			affinity(
				exprs{in(zoneKey, "us-west-2b"), in(regionKey, "us-west-2"), in("kubernetes.io/os", "linux")},
				exprs{in(ebsZoneKey, "us-west-2b"), in(regionKey, "us-west-2"), in("kubernetes.io/os", "linux")}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, zoneAffinity(c.from, "us-west-2b"))
		})
	}
}

func TestRestoredVolume_InTreeSource_BecomesCSI(t *testing.T) {
	t.Parallel()
	from := &corev1.PersistentVolume{}
	from.Labels = map[string]string{oldZoneKey: "us-east-1a", oldRegionKey: "us-east-1"}
	from.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-0old", FSType: "xfs"}
	assert.Equal(t, cluster.VolumeID("vol-0old"), volumeOf(from))
	of := RestoredVolume{
		Cluster: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1", Volume: "vol-0new", Zone: "us-west-2b", SizeGiB: 1,
	}
	pv := restoredVolume(from, of, operator1.Store{}, "c", "p")
	assert.NotContains(t, pv.Annotations, cage.ExpiresKey)
	of.Expires = "2026-11-28T00:00:00Z"
	assert.Equal(t, of.Expires, restoredVolume(from, of, operator1.Store{}, "c", "p").Annotations[cage.ExpiresKey])
	assert.Nil(t, pv.Spec.AWSElasticBlockStore)
	assert.Equal(t, &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: "vol-0new", FSType: "xfs"}, pv.Spec.CSI)
	assert.Equal(t, "us-west-2b", pv.Labels[oldZoneKey])
	assert.NotContains(t, pv.Labels, oldRegionKey)
}

func TestRestoredObjects_Incomplete_IsRefused(t *testing.T) {
	t.Parallel()
	r := readRecorded(t)
	good := RestoredVolume{
		Cluster: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1", Role: cluster.RoleData,
		Volume: "vol-0new", Zone: "eu-west-1b", SizeGiB: 20, Claim: r.Kubernetes.PVCs[0], Object: r.Kubernetes.PVs[0],
	}
	for name, c := range map[string]struct {
		change func(*RestoredVolume)
		want   failure.Kind
	}{
		"no zone":    {func(v *RestoredVolume) { v.Zone = "" }, failure.Usage},
		"no size":    {func(v *RestoredVolume) { v.SizeGiB = 0 }, failure.Usage},
		"no run":     {func(v *RestoredVolume) { v.Run = "" }, failure.Usage},
		"no volume":  {func(v *RestoredVolume) { v.Volume = "" }, failure.Usage},
		"bad claim":  {func(v *RestoredVolume) { v.Claim = json.RawMessage("{") }, failure.Corrupt},
		"bad volume": {func(v *RestoredVolume) { v.Object = json.RawMessage("[]") }, failure.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := good
			c.change(&v)
			_, _, err := restoredObjects(v)
			assert.Equal(t, c.want, failure.KindOf(err))
		})
	}
}

func TestCheckSize_LargeObject_IsRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkSize(map[string]string{"a": "b"}, "x"))
	err := checkSize(map[string]string{"a": string(make([]byte, maxObjectBytes))}, "x")
	assert.Equal(t, failure.Usage, failure.KindOf(err))
}
