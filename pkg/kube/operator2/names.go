package operator2

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the Operator's objects.
const GroupVersion = "core.pingcap.com/v1alpha1"

// Resources. Each group has instances, one a pod; of those only TiKV's matter to a backup.
const (
	Clusters = "clusters"
	TiKVs    = "tikvs"

	pdGroups   = "pdgroups"
	tikvGroups = "tikvgroups"
	tidbGroups = "tidbgroups"
)

// Groups lists the resources of groups that a backup records.
func Groups() []string {
	return []string{pdGroups, tikvGroups, tidbGroups, "tiflashgroups", "ticdcgroups", "tiproxygroups"}
}

// Group is the API group of the Operator's objects.
func Group() string { return Resource("").Group }

// Resource returns one of the resources above.
func Resource(name string) schema.GroupVersionResource {
	group, version, _ := strings.Cut(GroupVersion, "/")
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// Labels of instances and of what belongs to them. Groups have none: they name their cluster in spec.cluster.
const (
	clusterLabel   = "pingcap.com/cluster"
	groupLabel     = "pingcap.com/group"
	componentLabel = "pingcap.com/component"
)

// The components of stores, of PD and of TiDB.
const (
	tikv = "tikv"
	pd   = "pd"
	tidb = "tidb"
)

// TiKVOf selects the instances and pods of a cluster's stores.
func TiKVOf(cluster string) metav1.ListOptions { return ComponentOf(cluster, tikv) }

// ComponentOf selects the instances and pods of a component of a cluster.
func ComponentOf(cluster, component string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: clusterLabel + "=" + cluster + "," + componentLabel + "=" + component}
}

// Of selects whatever belongs to a cluster but its groups.
func Of(cluster string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: clusterLabel + "=" + cluster}
}

// IsOf reports whether these are labels of something that belongs to a cluster.
func IsOf(cluster string, labels map[string]string) bool { return labels[clusterLabel] == cluster }

// IsStoreOf reports whether these are labels of something that belongs to a cluster's stores.
func IsStoreOf(cluster string, labels map[string]string) bool {
	return IsOf(cluster, labels) && Component(labels) == tikv
}

// Component returns the component that labels name.
func Component(labels map[string]string) string { return labels[componentLabel] }

// ResourceOf returns the resource of a kind.
func ResourceOf(kind string) schema.GroupVersionResource {
	return Resource(strings.ToLower(kind) + "s")
}

// IsBehind reports whether a pod with these labels is a PD or TiDB behind a service: that of its group or, of PD with
// several groups, of its cluster.
func IsBehind(service string, pod map[string]string) bool {
	switch component := pod[componentLabel]; component {
	case pd, tidb:
		return service == pod[groupLabel]+"-"+component || component == pd && service == pod[clusterLabel]+"-"+pd
	}
	return false
}

// IsPod reports whether a name is like that of a pod of PD or TiKV: GROUP-COMPONENT-SUFFIX.
func IsPod(name string) bool {
	of := name[:max(strings.LastIndex(name, "-"), 0)]
	return strings.HasSuffix(of, "-"+pd) || strings.HasSuffix(of, "-"+tikv)
}

// IsHeadless reports whether a service's name is that of the headless service of a group, or of all pods of a cluster.
func IsHeadless(service string) bool {
	return strings.HasSuffix(service, "-peer") || strings.HasSuffix(service, "-cluster")
}

// podName returns the name of the pod of a TiKV instance, which is named GROUP-SUFFIX.
func podName(instance string) string {
	i := strings.LastIndex(instance, "-")
	return instance[:i+1] + tikv + "-" + instance[i+1:]
}

// podVolume returns the name that a volume of an instance has in its pod.
func podVolume(volume string) string { return "ti-vol-" + volume }
