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
		id, _, _ := unstructured.NestedString(o.Object, "status", "id")
		return id == ""
	})
}

// pdHost is the DNS name of PD's service, without the domain of the Kubernetes cluster.
func (k *Kubelet) pdHost(name cluster.Name) string {
	for _, group := range k.bed.groups(name, "pdgroups") {
		return group.GetName() + "-pd." + name.Namespace
	}
	return name.Name + "-pd." + name.Namespace + ".svc"
}
