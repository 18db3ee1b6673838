package testbed

import (
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

// pdHost is the DNS name of PD's service, without the domain of the Kubernetes cluster.
func (k *Kubelet) pdHost(name cluster.Name) string {
	for _, group := range k.bed.groups(name, "pdgroups") {
		return group.GetName() + "-pd." + name.Namespace
	}
	return name.Name + "-pd." + name.Namespace + ".svc"
}
