package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

type object = map[string]any

const temporaryVolumeID = "temporary/volume-id"

// tikvClaims lists the claims of a cluster's TiKV pods.
func tikvClaims(bed *testbed.Testbed, name cluster.Name) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, pvc := range bed.Kube.List("persistentvolumeclaims", name.Namespace) {
		labels := pvc.GetLabels()
		if labels["app.kubernetes.io/instance"] == name.Name && labels["app.kubernetes.io/component"] == "tikv" {
			out = append(out, pvc)
		}
	}
	return out
}

// ClusterMeta is the document that the Operator writes before it calls br for a backup.
func ClusterMeta(bed *testbed.Testbed, name cluster.Name) ([]byte, error) {
	tc := bed.Kube.Get("tidbclusters", name.Namespace, name.Name)
	if tc == nil {
		return nil, fmt.Errorf("no cluster %s", name)
	}
	storeOf := map[string]uint64{} // by pod
	stores, _, _ := unstructured.NestedMap(tc.Object, "status", "tikv", "stores")
	for id, s := range stores {
		number, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return nil, err
		}
		store, _ := s.(object)
		pod, _ := store["podName"].(string)
		storeOf[pod] = number
	}
	volumes := map[uint64][]object{}
	var pvcs, pvs []object
	for _, pvc := range tikvClaims(bed, name) {
		volumeName, _, _ := unstructured.NestedString(pvc.Object, "spec", "volumeName")
		pv := bed.Kube.Get("persistentvolumes", "", volumeName)
		handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
		annotations := pv.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[temporaryVolumeID] = handle
		pv.SetAnnotations(annotations)
		pod := pvc.GetName()[strings.Index(pvc.GetName(), name.Name+"-tikv-"):]
		kind, path := "storage.data-dir", "/var/lib/tikv"
		if strings.HasPrefix(pvc.GetName(), "tikv-raft-log-") {
			kind, path = "raft-engine.dir", "/var/lib/raft-log"
		}
		id := storeOf[pod]
		volumes[id] = append(volumes[id], object{
			"volume_id": handle, "type": kind, "mount_path": path, "snapshot_id": "", "restore_volume_id": "",
		})
		pvcs, pvs = append(pvcs, typed(pvc)), append(pvs, typed(pv))
	}
	var list []object
	for id := range volumes {
		list = append(list, object{"store_id": id, "volumes": volumes[id]})
	}
	if err := addPeerStores(bed, tc, stores); err != nil {
		return nil, err
	}
	replicas := func(component string) int64 {
		n, _, _ := unstructured.NestedInt64(tc.Object, "spec", component, "replicas")
		return n
	}
	return json.Marshal(object{
		"tikv": object{"replicas": replicas("tikv"), "stores": list},
		"pd":   object{"replicas": replicas("pd")}, "tidb": object{"replicas": replicas("tidb")},
		"kubernetes": object{"pvcs": pvcs, "pvs": pvs, "crd_tidb_cluster": typed(tc), "options": nil}, "options": nil,
	})
}

// typed is an object as a typed client shows it: without kind and version.
func typed(o *unstructured.Unstructured) object {
	out := o.DeepCopy().Object
	delete(out, "kind")
	delete(out, "apiVersion")
	return out
}

// restored is what the Operator reads of the document that br restored volumes by.
type restored struct {
	TiKV struct {
		Stores []struct {
			Volumes []struct {
				VolumeID        string `json:"volume_id"`
				RestoreVolumeID string `json:"restore_volume_id"`
				Zone            string `json:"volume_az"`
			} `json:"volumes"`
		} `json:"stores"`
	} `json:"tikv"`
	Kubernetes struct {
		PVCs        []json.RawMessage `json:"pvcs"`
		PVs         []json.RawMessage `json:"pvs"`
		TidbCluster struct {
			Metadata struct{ Name string } `json:"metadata"`
		} `json:"crd_tidb_cluster"`
	} `json:"kubernetes"`
}

// bindRestored makes the PVs and claims of the restored volumes, by the Operator's rules: the objects of the backup,
// under the target's names, with the new volumes' ids. What it would refuse is an error.
func bindRestored(ctx context.Context, bed *testbed.Testbed, target cluster.Name, restoreMeta []byte) error {
	var doc restored
	if err := json.Unmarshal(restoreMeta, &doc); err != nil {
		return err
	}
	if len(doc.Kubernetes.PVs) == 0 || len(doc.Kubernetes.PVs) != len(doc.Kubernetes.PVCs) {
		return fmt.Errorf(".kubernetes.pvcs and pvs for CloudSnapBackup not matched: %d and %d", len(doc.Kubernetes.PVCs), len(doc.Kubernetes.PVs))
	}
	type made struct{ id, zone string }
	byOld := map[string]made{}
	for _, s := range doc.TiKV.Stores {
		for _, v := range s.Volumes {
			byOld[v.VolumeID] = made{v.RestoreVolumeID, v.Zone}
		}
	}
	claims := map[string]*unstructured.Unstructured{}
	for _, raw := range doc.Kubernetes.PVCs {
		pvc, err := untyped(raw, "PersistentVolumeClaim")
		if err != nil {
			return err
		}
		claims[pvc.GetName()] = pvc
	}
	rename := regexp.MustCompile(doc.Kubernetes.TidbCluster.Metadata.Name + "-tikv-([0-9]+)$")
	for _, raw := range doc.Kubernetes.PVs {
		pv, err := untyped(raw, "PersistentVolume")
		if err != nil {
			return err
		}
		old, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		pvc := claims[old]
		if pvc == nil {
			return fmt.Errorf("pvc %s not found", old)
		}
		volume, ok := byOld[pv.GetAnnotations()[temporaryVolumeID]]
		if !ok || volume.id == "" {
			return fmt.Errorf("%s: no restored volume of %q", pv.GetName(), pv.GetAnnotations()[temporaryVolumeID])
		}
		claim := rename.ReplaceAllString(old, target.Name+"-tikv-$1")
		if err := putBound(ctx, bed, target, pv, pvc, claim, volume.id, volume.zone); err != nil {
			return err
		}
	}
	return nil
}

// putBound makes one pair, as two objects that the binder brings together.
func putBound(ctx context.Context, bed *testbed.Testbed, target cluster.Name, pv, pvc *unstructured.Unstructured, claim, volume, zone string) error {
	name := "pvc-restored-" + claim
	labels := pvc.GetLabels()
	labels["app.kubernetes.io/instance"] = target.Name
	fresh := func(o *unstructured.Unstructured, name, namespace string, labels map[string]string) *unstructured.Unstructured {
		annotations := o.GetAnnotations()
		for _, key := range []string{
			"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/provisioned-by", temporaryVolumeID,
		} {
			delete(annotations, key)
		}
		o.Object["metadata"] = object{}
		o.SetName(name)
		o.SetNamespace(namespace)
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
		delete(o.Object, "status")
		return o
	}
	pvLabels := pv.GetLabels()
	if pvLabels == nil {
		pvLabels = map[string]string{}
	}
	pvLabels["app.kubernetes.io/instance"], pvLabels["app.kubernetes.io/namespace"] = target.Name, target.Namespace
	fresh(pv, name, "", pvLabels)
	fresh(pvc, claim, target.Namespace, labels)
	spec, _ := pv.Object["spec"].(object)
	spec["claimRef"] = object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": target.Namespace, "name": claim}
	spec["nodeAffinity"] = object{"required": object{"nodeSelectorTerms": []any{object{"matchExpressions": []any{
		object{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": []any{zone}},
	}}}}}
	if err := unstructured.SetNestedField(pv.Object, volume, "spec", "csi", "volumeHandle"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(pvc.Object, name, "spec", "volumeName"); err != nil {
		return err
	}
	if err := bed.Kube.Put(pv); err != nil {
		return err
	}
	return until(ctx, "persistent volume "+name, func() bool {
		phase, _, _ := unstructured.NestedString(bed.Kube.Get("persistentvolumes", "", name).Object, "status", "phase")
		return phase == "Available" || phase == "Bound"
	}, func() error { return bed.Kube.Put(pvc) })
}

// until waits for the condition and then does what comes after it.
func until(ctx context.Context, what string, condition func() bool, then func() error) error {
	for !condition() {
		if err := wait.For(ctx, poll); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
	return then()
}

// untyped gives an object of a typed client its kind again.
func untyped(raw []byte, kind string) (*unstructured.Unstructured, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	fields["kind"], fields["apiVersion"] = json.RawMessage(`"`+kind+`"`), json.RawMessage(`"v1"`)
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	o := new(unstructured.Unstructured)
	return o, o.UnmarshalJSON(whole)
}
