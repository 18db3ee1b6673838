package operator1

import (
	"cmp"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What TiDB Operator writes on its objects.
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

// ComponentSelector selects what belongs to a component of a cluster, by TidbCluster.Instance.
func ComponentSelector(instance, component string) metav1.ListOptions {
	return metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s=%s,%s=%s", InstanceLabel, instance, ComponentLabel, component),
	}
}

// InstanceSelector selects what belongs to a cluster, by TidbCluster.Instance.
func InstanceSelector(instance string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: InstanceLabel + "=" + instance}
}

// components are those of a TidbCluster that have a StatefulSet, as a pattern.
const components = "(tikv|pd|tidb|ticdc|pump|tiproxy|tiflash)"

// StatefulSets recognizes the names of a cluster's StatefulSets.
func StatefulSets(cluster string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(cluster) + "-" + components + "$")
}

// ClaimOf recognizes by its name a claim that a StatefulSet of the cluster would take for its own, whatever its labels.
func ClaimOf(cluster string) *regexp.Regexp {
	return regexp.MustCompile(`^(tikv|pd|tidb|ticdc|pump|tiproxy|data\d+)-` + regexp.QuoteMeta(cluster) +
		`-` + components + `-\d+$`)
}

// Instance is what the Operator labels everything of the cluster with: TidbCluster.GetInstanceName.
func Instance(o *unstructured.Unstructured) string {
	return cmp.Or(o.GetLabels()[InstanceLabel], o.GetName())
}

// Resource is that of TidbClusters.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}
}

// MadeForPod recognizes the name of a claim, of any template, that a StatefulSet of the cluster makes. That does not
// prove that it did: one of cluster "my-copy" looks like one of "copy", too.
func MadeForPod(cluster string) *regexp.Regexp {
	return regexp.MustCompile("-" + regexp.QuoteMeta(cluster) + "-" + components + `-\d+$`)
}

// TLSSecrets are the names of the secrets that the pods of a cluster mount. They are made of the cluster's own
// name: those of the source are of no use to a copy.
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

// ClientSecret is where TiDB Operator 1.6 looks for the certificate of a cluster's clients
// (util.ClusterClientTLSSecretName).
func ClientSecret(name string) string { return name + "-cluster-client-secret" }
