package kubetest

import "github.com/tisnap/tisnap/pkg/cluster"

// AddNode adds a worker node that runs on an EC2 instance, labelled with its zone as EKS, the EBS CSI driver and further ones do.
func (s *Objects) AddNode(name string, instance cluster.InstanceID, zone cluster.Zone, drivers ...string) error {
	z := string(zone)
	node := meta(object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{"name": name, "labels": object{
			"kubernetes.io/hostname":        name,
			"topology.kubernetes.io/zone":   z,
			"topology.kubernetes.io/region": regionOf(z),
			driverZone(ebsDriver):           z,
		}},
		"spec": object{"providerID": "aws:///" + z + "/" + string(instance)},
		"status": object{"capacity": room(), "allocatable": room(), "conditions": []any{
			object{"type": "Ready", "status": "True", "reason": "KubeletReady"},
		}},
	})
	for _, driver := range drivers {
		label(node, driverZone(driver), z)
	}
	if err := s.Put(node); err != nil || !s.controlled {
		return err
	}
	return s.Put(node) // a new node has a taint, that it is not ready, until someone removes it
}

// regionOf drops the zone's letter.
func regionOf(zone string) string {
	if zone == "" {
		return ""
	}
	return zone[:len(zone)-1]
}

// AddNamespace adds a namespace, unless it is there.
func (s *Objects) AddNamespace(name string) error {
	return s.Put(meta(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}))
}

// AddStorageClass adds a class of the EBS CSI driver.
func (s *Objects) AddStorageClass(name string) error { return s.AddStorageClassOf(name, ebsDriver) }

// AddStorageClassOf adds a class of another provisioner, as that of EKS Auto Mode.
func (s *Objects) AddStorageClassOf(name, provisioner string) error {
	return s.Put(meta(object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": object{"name": name},
		"provisioner": provisioner, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
	}))
}
