package testbed

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// groups lists the groups, or the instances, of a cluster of TiDB Operator 2.x.
func (t *Testbed) groups(name cluster.Name, resource string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, o := range t.Objects.List(resource, name.Namespace) {
		if of, _, _ := unstructured.NestedString(o.Object, "spec", "cluster", "name"); of == name.Name {
			found = append(found, o)
		}
	}
	return found
}

// allInstances reports whether every TiKV of a cluster's groups is known to PD, the Cluster has an address of PD, and the
// Operator has nothing left to do.
func (t *Testbed) allInstances(name cluster.Name) bool {
	o := t.Objects.Get("clusters", name.Namespace, name.Name)
	if o == nil {
		return false
	}
	pd, _, _ := unstructured.NestedString(o.Object, "status", "pd")
	stores := t.groups(name, "tikvs")
	for _, o := range append(t.groups(name, "pdgroups"), append(t.groups(name, "tikvgroups"), stores...)...) {
		if seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); seen != o.GetGeneration() {
			return false
		}
	}
	return pd != "" && len(stores) > 0 && len(stores) == t.Nodes.replicas(name) && !slices.ContainsFunc(stores, func(o *unstructured.Unstructured) bool {
		status, _, _ := unstructured.NestedMap(o.Object, "status")
		return status["id"] == nil || status["currentRevision"] != status["updateRevision"] // until it is ready for the first time
	})
}

// pdHost is the DNS name of PD without the domain of the Kubernetes cluster: that of its service, or with Operator 2.x of
// its first pod, as it advertises that one.
func (k *Kubelet) pdHost(name cluster.Name) string {
	for _, pod := range k.bed.Objects.List("pods", name.Namespace) {
		labels := pod.GetLabels()
		if labels["pingcap.com/cluster"] == name.Name && labels["pingcap.com/component"] == "pd" {
			return pod.GetName() + "." + labels["pingcap.com/group"] + "-pd-peer." + name.Namespace
		}
	}
	return name.Name + "-pd." + name.Namespace + ".svc"
}
