package kubetest

import "k8s.io/apimachinery/pkg/runtime/schema"

// resource is a kind that the server knows. Plural names are unique over all groups.
type resource struct {
	group, version, name, kind string
	namespaced                 bool
	status                     bool // has the /status subresource: a write of the object leaves its status alone
	short                      []string
}

// The plural names that the Operator uses.
const (
	pods         = "pods"
	nodes        = "nodes"
	events       = "events"
	claims       = "persistentvolumeclaims"
	volumes      = "persistentvolumes"
	statefulSets = "statefulsets"
	tidbClusters = "tidbclusters"
	namespaces   = "namespaces"
	services     = "services"
	reviews      = "selfsubjectaccessreviews"

	volumeAttachments = "volumeattachments"
)

const pingcapGroup = "pingcap.com"

// resources lists everything that is served. TidbCluster and its kin have no status subresource in the real CRDs.
func resources() []resource {
	return append([]resource{
		{version: "v1", name: namespaces, kind: "Namespace", status: true, short: []string{"ns"}},
		{version: "v1", name: nodes, kind: "Node", status: true, short: []string{"no"}},
		{version: "v1", name: volumes, kind: "PersistentVolume", status: true, short: []string{"pv"}},
		{version: "v1", name: pods, kind: "Pod", namespaced: true, status: true, short: []string{"po"}},
		{version: "v1", name: claims, kind: "PersistentVolumeClaim", namespaced: true, status: true, short: []string{"pvc"}},
		{version: "v1", name: events, kind: "Event", namespaced: true, short: []string{"ev"}},
		{version: "v1", name: services, kind: "Service", namespaced: true, status: true, short: []string{"svc"}},
		{version: "v1", name: "configmaps", kind: "ConfigMap", namespaced: true, short: []string{"cm"}},
		{version: "v1", name: "resourcequotas", kind: "ResourceQuota", namespaced: true, status: true, short: []string{"quota"}},
		{version: "v1", name: "secrets", kind: "Secret", namespaced: true},
		{version: "v1", name: "serviceaccounts", kind: "ServiceAccount", namespaced: true, short: []string{"sa"}},
		{group: "apps", version: "v1", name: statefulSets, kind: "StatefulSet", namespaced: true, status: true, short: []string{"sts"}},
		{group: "batch", version: "v1", name: "jobs", kind: "Job", namespaced: true, status: true},
		{group: "storage.k8s.io", version: "v1", name: storageClasses, kind: "StorageClass", short: []string{"sc"}},
		{group: "storage.k8s.io", version: "v1", name: volumeAttachments, kind: "VolumeAttachment", status: true},
		{group: "networking.k8s.io", version: "v1", name: "networkpolicies", kind: "NetworkPolicy", namespaced: true, short: []string{"netpol"}},
		{group: "discovery.k8s.io", version: "v1", name: "endpointslices", kind: "EndpointSlice", namespaced: true},
		{group: "authorization.k8s.io", version: "v1", name: reviews, kind: "SelfSubjectAccessReview"},
		{group: pingcapGroup, version: "v1alpha1", name: tidbClusters, kind: "TidbCluster", namespaced: true, short: []string{"tc"}},
		{group: pingcapGroup, version: "v1alpha1", name: "backups", kind: "Backup", namespaced: true, short: []string{"bk"}},
		{group: pingcapGroup, version: "v1alpha1", name: "restores", kind: "Restore", namespaced: true, short: []string{"rt"}},
	}, coreResources()...)
}

func resourceByKind(kind string) (resource, bool) {
	for _, r := range resources() {
		if r.kind == kind {
			return r, true
		}
	}
	return resource{}, false
}

// resourceNamed is a resource by one of the names above.
func resourceNamed(name string) resource {
	for _, r := range resources() {
		if r.name == name {
			return r
		}
	}
	return resource{}
}

func resourceByName(group, version, name string) (resource, bool) {
	for _, r := range resources() {
		if r.name == name && r.group == group && r.version == version {
			return r, true
		}
	}
	return resource{}, false
}

func (r resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

func (r resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.name}
}

func (r resource) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.group, Kind: r.kind}
}
