package kubetest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ensureService makes the service of TiDB from spec.tidb.service. A node port that another service has is refused,
// as by the real server, until that one is gone: TiDB is not made before.
func (o *Operator) ensureService(spec clusterSpec) error {
	name := spec.name.Name + "-tidb"
	if _, exists := o.store.peek(services, spec.name.Namespace, name); exists {
		return nil
	}
	tc, _ := o.store.get(tidbClusters, spec.name.Namespace, spec.name.Name)
	port, _, _ := unstructured.NestedInt64(tc, "spec", "tidb", "service", "mysqlNodePort")
	annotations, _, _ := unstructured.NestedStringMap(tc, "spec", "tidb", "service", "annotations")
	list, _ := o.store.list(services, "")
	for _, raw := range list {
		for _, p := range mustTyped[corev1.Service](raw).Spec.Ports {
			if port != 0 && int64(p.NodePort) == port {
				return fmt.Errorf("Service %q is invalid: spec.ports[0].nodePort: Invalid value: %d: provided port is already allocated", name, port)
			}
		}
	}
	yes := true
	o.create(services, &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: spec.name.Namespace, Labels: spec.labels("tidb"), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "pingcap.com/v1alpha1", Kind: "TidbCluster", Name: spec.name.Name, UID: spec.uid,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "mysql-client", Port: 4000, NodePort: int32(port)}}}, //nolint:gosec // a port
	})
	return nil
}
