package operator2

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Recorded returns the objects of a source: manifest.Kubernetes.Source. False for one of TiDB Operator 1.x.
func Recorded(source json.RawMessage) ([]json.RawMessage, bool) {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(source, &list) != nil || list.Kind != "List" {
		return nil, false
	}
	return list.Items, true
}

// Store is a store of a target, found by a claim of its source.
type Store struct {
	// Source is the pod of the source's store, Volume the name of the claim's volume in its TiKVGroup.
	Source, Volume string

	instance string // of the target
}

// IsClaim reports whether TiDB Operator 2.x labelled a claim.
func IsClaim(claim *metav1.ObjectMeta) bool { return claim.Labels[volumeLabel] != "" }

// StoreOf returns the store of a target that gets the volume of a claim of the source.
func StoreOf(target cluster.Name, claim *metav1.ObjectMeta) (Store, error) {
	of := claim.Labels
	instance, group := of[instanceLabel], of[groupLabel]
	suffix, ok := strings.CutPrefix(instance, group+"-")
	if !ok || group == "" || of[clusterLabel] == "" || of[componentLabel] != tikv {
		return Store{}, failure.New(failure.Corrupt, "name claim", claim.Name,
			"not the claim of a TiKV: its labels name no instance and no group of a cluster")
	}
	return Store{
		Source: podName(instance), Volume: of[volumeLabel],
		instance: groupName(of[clusterLabel], target.Name, group) + "-" + suffix,
	}, nil
}

// Pod returns the name of the target's pod.
func (s Store) Pod() string { return podName(s.instance) }

// Claim returns the name of the target's claim.
func (s Store) Claim(*metav1.ObjectMeta) (string, error) { return s.Volume + "-" + s.Pod(), nil }

// Labels returns the labels of the source's object that are not the Operator's, which writes its own.
func (s Store) Labels(from map[string]string) map[string]string {
	labels := maps.Clone(from)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		prefix, _, _ := strings.Cut(key, "/")
		return strings.HasSuffix(prefix, "pingcap.com") || prefix == "app.kubernetes.io"
	})
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// RenamePod leaves labels and annotations as they are: none names a pod.
func (s Store) RenamePod(map[string]string) {}

// TLSSecrets returns the names of the secrets that the pods of a target mount, and of those with the CA and with the
// certificate and key of its clients; none without TLS. A group that names secrets of its own is left out.
func TLSSecrets(made *Made) (names []string, ca, pair string) {
	if on, _, _ := unstructured.NestedBool(made.Cluster.Object, "spec", "tlsCluster", "enabled"); !on {
		return nil, "", ""
	}
	for _, o := range slices.Concat(made.Early, made.Late) {
		if _, own, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec", "security", "tls"); own {
			continue
		}
		component := strings.ToLower(strings.TrimSuffix(o.GetKind(), "Group"))
		names = append(names, o.GetName()+"-"+component+"-cluster-secret")
	}
	client := func(what string) string {
		name, _, _ := unstructured.NestedString(made.Cluster.Object, "spec", "security", "tls", "client", what, "name")
		return cmp.Or(name, clientSecret(made.Cluster.GetName()))
	}
	ca, pair = client("ca"), client("certKeyPair")
	return append(names, slices.Compact([]string{ca, pair})...), ca, pair
}

// clientSecret is the secret of a cluster's clients that names no other.
func clientSecret(cluster string) string { return cluster + "-cluster-client-secret" }

// Document returns an object as YAML without the run's mark.
func Document(o *unstructured.Unstructured) ([]byte, error) {
	o = o.DeepCopy()
	annotations, labels := o.GetAnnotations(), o.GetLabels()
	delete(annotations, runmark.Key)
	delete(labels, runmark.Key)
	o.SetAnnotations(annotations)
	o.SetLabels(labels)
	return yaml.Marshal(o.Object)
}
