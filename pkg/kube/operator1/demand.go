package operator1

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Demand is a lower bound of what will be created in a namespace, by resource name as in quotas: TiDB Operator may
// create more, and unknown resources are not counted.
type Demand map[corev1.ResourceName]resource.Quantity

func (d Demand) add(name corev1.ResourceName, times int64, of resource.Quantity) {
	if of.IsZero() || times == 0 {
		return
	}
	sum := d[name]
	of.Mul(times)
	sum.Add(of)
	d[name] = sum
}

func (d Demand) count(name corev1.ResourceName, n int64) {
	d.add(name, n, *resource.NewQuantity(1, resource.DecimalSI))
}

// Claims adds n claims of a size. For the default class, "", no per-class quota is counted.
func (d Demand) Claims(n int64, size resource.Quantity, class string) {
	d.count(corev1.ResourcePersistentVolumeClaims, n)
	d.add(corev1.ResourceRequestsStorage, n, size)
	if class != "" {
		prefix := corev1.ResourceName(class + ".storageclass.storage.k8s.io/")
		d.count(prefix+corev1.ResourcePersistentVolumeClaims, n)
		d.add(prefix+corev1.ResourceRequestsStorage, n, size)
	}
}

// Cluster adds what TiDB Operator creates for a TidbCluster, except TiKV's claims, which the restore creates.
func (d Demand) Cluster(o *unstructured.Unstructured) {
	d.count("count/tidbclusters.pingcap.com", 1)
	d.count("count/deployments.apps", 1) // of discovery
	d.count(corev1.ResourcePods, 1)
	d.count(corev1.ResourceServices, 1)
	spec, _ := o.Object["spec"].(map[string]any)
	for _, component := range []string{"pd", TiKV, "tidb", "tiflash", "ticdc", "pump", "tiproxy"} {
		if part, ok := spec[component].(map[string]any); ok {
			replicas, _ := part["replicas"].(int64)
			if component == "tidb" { // started at the end
				kept, _ := strconv.ParseInt(o.GetAnnotations()[tidbReplicasKey], 10, 32)
				replicas = max(replicas, kept)
			}
			d.component(component, part, replicas)
		}
	}
}

func (d Demand) component(name string, part map[string]any, replicas int64) {
	d.count("count/statefulsets.apps", 1)
	d.count(corev1.ResourcePods, replicas)
	d.count(corev1.ResourceServices, 1) // of its peers
	if name == "pd" {
		d.count(corev1.ResourceServices, 1)
	}
	if service, has := part["service"].(map[string]any); has && name == "tidb" {
		d.count(corev1.ResourceServices, 1)
		if service["type"] == string(corev1.ServiceTypeLoadBalancer) {
			d.count(corev1.ResourceServicesLoadBalancers, 1)
		}
	}
	if part["config"] != nil {
		d.count(corev1.ResourceConfigMaps, 1)
	}
	requests, _ := part["requests"].(map[string]any)
	limits, _ := part["limits"].(map[string]any)
	for resourceName, request := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceRequestsCPU, "memory": corev1.ResourceRequestsMemory,
	} {
		limit := quantity(limits[resourceName])
		requested := limit // Kubernetes' default
		if value, named := requests[resourceName]; named {
			requested = quantity(value)
		}
		d.add(request, replicas, requested)
		d.add("limits."+corev1.ResourceName(resourceName), replicas, limit)
	}
	if name != TiKV {
		d.storage(name, part, replicas, quantity(requests["storage"]))
	}
}

// storage adds the claims of a component.
func (d Demand) storage(name string, part map[string]any, replicas int64, own resource.Quantity) {
	class, _ := part["storageClassName"].(string)
	classOf := func(fields map[string]any) string {
		if named, _ := fields["storageClassName"].(string); named != "" {
			return named
		}
		return class
	}
	if name == "pd" || name == "pump" {
		d.Claims(replicas, own, class)
	}
	volumes, _ := part["storageVolumes"].([]any)
	for _, v := range volumes {
		if fields, ok := v.(map[string]any); ok {
			d.Claims(replicas, quantity(fields["storageSize"]), classOf(fields))
		}
	}
	claims, _ := part["storageClaims"].([]any) // TiFlash's
	for _, v := range claims {
		if fields, ok := v.(map[string]any); ok {
			size, _, _ := unstructured.NestedFieldNoCopy(fields, "resources", "requests", "storage")
			d.Claims(replicas, quantity(size), classOf(fields))
		}
	}
}

// quantity parses a value of a spec; an invalid one is zero.
func quantity(value any) resource.Quantity {
	if value == nil {
		return resource.Quantity{}
	}
	q, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}
