package operator1

import (
	"cmp"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels and annotations of TiDB Operator's objects.
const (
	InstanceLabel      = "app.kubernetes.io/instance"
	ComponentLabel     = "app.kubernetes.io/component"
	NamespaceLabel     = "app.kubernetes.io/namespace"
	clusterIDLabel     = "tidb.pingcap.com/cluster-id"
	podNameKey         = "tidb.pingcap.com/pod-name"
	volumesReadyKey    = "tidb.pingcap.com/tikv-volumes-ready"
	RestoredVolumeKey  = "tikv-volume-restore/volume-id"
	TemporaryVolumeKey = "temporary/volume-id"
	lastAppliedKey     = "kubectl.kubernetes.io/last-applied-configuration"
	deleteSlotsSuffix  = "tidb.pingcap.com/delete-slots"
)

// TiKV is the component of the stores, and the name of their containers.
const TiKV = "tikv"

// ComponentSelector selects the objects of a component of a cluster, by TidbCluster.Instance.
func ComponentSelector(instance, component string) metav1.ListOptions {
	return metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s=%s,%s=%s", InstanceLabel, instance, ComponentLabel, component),
	}
}

// InstanceSelector selects the objects of a cluster, by TidbCluster.Instance.
func InstanceSelector(instance string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: InstanceLabel + "=" + instance}
}

// components matches the components of a TidbCluster that have a StatefulSet.
const components = "(tikv|pd|tidb|ticdc|pump|tiproxy|tiflash)"

// StatefulSets matches the names of a cluster's StatefulSets.
func StatefulSets(cluster string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(cluster) + "-" + components + "$")
}

// ClaimOf matches the names of claims that a StatefulSet of the cluster would adopt, whatever their labels.
func ClaimOf(cluster string) *regexp.Regexp {
	return regexp.MustCompile(`^(tikv|pd|tidb|ticdc|pump|tiproxy|data\d+)-` + regexp.QuoteMeta(cluster) +
		`-` + components + `-\d+$`)
}

// Instance returns the Operator's instance label of all objects of the cluster: TidbCluster.GetInstanceName.
func Instance(o *unstructured.Unstructured) string {
	return cmp.Or(o.GetLabels()[InstanceLabel], o.GetName())
}

// GroupVersion is that of TidbClusters.
const GroupVersion = "pingcap.com/v1alpha1"

// Resource is the resource of TidbClusters.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}
}

// MadeForPod matches the names of claims, from any template, that a StatefulSet of the cluster makes. A match is no
// proof: a claim of cluster "my-copy" also looks like one of "copy".
func MadeForPod(cluster string) *regexp.Regexp {
	return regexp.MustCompile("-" + regexp.QuoteMeta(cluster) + "-" + components + `-\d+$`)
}

// TLSSecrets returns the names of the secrets that the pods of a cluster mount. They contain the cluster's name, so a
// copy cannot use its source's.
func TLSSecrets(spec map[string]any, name string) []string {
	var names []string
	if on, _, _ := unstructured.NestedBool(spec, "tlsCluster", "enabled"); on {
		for _, component := range []string{"pd", "tikv", "tidb", "tiflash", "ticdc", "pump", "tiproxy"} {
			if _, has := spec[component].(map[string]any); has {
				names = append(names, name+"-"+component+"-cluster-secret")
			}
		}
		names = append(names, ClientSecret(name))
	}
	if on, _, _ := unstructured.NestedBool(spec, "tidb", "tlsClient", "enabled"); on {
		names = append(names, name+"-tidb-server-secret")
	}
	return names
}

// ClientSecret is the name of the secret with the certificate of a cluster's clients in TiDB Operator 1.6
// (util.ClusterClientTLSSecretName).
func ClientSecret(name string) string { return name + "-cluster-client-secret" }
