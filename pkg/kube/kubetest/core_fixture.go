package kubetest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// NewCoreCluster makes what a user of TiDB Operator 2.x writes for a cluster: a Cluster, a PDGroup, TiKVGroups that the stores
// are dealt out to, and a TiDBGroup. RecoveryMode, Join and DeleteSlots have no counterpart there.
func NewCoreCluster(opts ClusterOptions) []*unstructured.Unstructured {
	opts = opts.withDefaults()
	name := opts.Name.Name
	spec := object{}
	if opts.TLS {
		spec["tlsCluster"] = object{"enabled": true}
	}
	all := []*unstructured.Unstructured{
		opts.core("Cluster", name, spec),
		opts.core("PDGroup", name+"-pd", opts.coreGroup(opts.PD, object{"volumes": []any{opts.coreVolume("data", "data", "")}})),
	}
	groups := max(opts.TiKVGroups, 1)
	for i := range groups {
		stores := (opts.TiKV + groups - 1 - i) / groups
		all = append(all, opts.core("TiKVGroup", fmt.Sprintf("%s-kv%d", name, i), opts.coreGroup(stores, opts.coreStore())))
	}
	return append(all, opts.core("TiDBGroup", name+"-db", opts.coreGroup(opts.TiDB, object{})))
}

func (o ClusterOptions) core(kind, name string, spec object) *unstructured.Unstructured {
	return meta(object{
		"apiVersion": coreGroup + "/v1alpha1", "kind": kind,
		"metadata": object{"name": name, "namespace": o.Name.Namespace}, "spec": spec,
	})
}

func (o ClusterOptions) coreGroup(replicas int, template object) object {
	template["version"] = o.Version
	return object{
		"cluster": object{"name": o.Name.Name}, "replicas": int64(replicas), "template": object{"spec": template},
	}
}

// coreStore is the template of the stores: a data volume, and those that the options ask for.
func (o ClusterOptions) coreStore() object {
	config := "[storage]\nreserve-space = \"0MB\"\n"
	volumes := []any{o.coreVolume("data", "data", "")}
	add := func(name, section, key string) {
		path := "/var/lib/" + name
		volumes = append(volumes, o.coreVolume(name, name, path))
		config += fmt.Sprintf("[%s]\n%s = \"%s/%s\"\n", section, key, path, key)
	}
	if o.RaftLogVolume {
		add("raft-log", "raft-engine", "dir")
	}
	if o.WALVolume {
		add("wal", "rocksdb", "wal-dir")
	}
	return object{"config": config, "volumes": volumes}
}

func (o ClusterOptions) coreVolume(name, mountType, path string) object {
	mount := object{"type": mountType}
	if path != "" {
		mount["mountPath"] = path
	}
	return object{
		"name": name, "mounts": []any{mount},
		"storage": fmt.Sprintf("%dGi", o.SizeGiB), "storageClassName": o.StorageClass,
	}
}
