package operator1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// acrossFields make a TidbCluster part of one that others, in other Kubernetes clusters, are part of too.
func acrossFields() []string { return []string{"acrossK8s", "cluster", "clusterDomain", "pdAddresses"} }

// Joins reports whether a TidbCluster joins the PD of another one.
func Joins(object json.RawMessage) (bool, error) {
	content, err := decoded(object)
	if err != nil {
		return false, err
	}
	other, _, _ := unstructured.NestedMap(content, "spec", "cluster")
	addresses, _, _ := unstructured.NestedSlice(content, "spec", "pdAddresses")
	return len(other) > 0 || len(addresses) > 0, nil
}

// Joined returns the TidbCluster that has the members of all of these, in one Kubernetes cluster: the first with the
// members of PD, TiKV and TiDB that all of them have. Its status is left out.
func Joined(objects []json.RawMessage) (json.RawMessage, error) {
	var first map[string]any
	members := map[string]int64{}
	for _, object := range objects {
		content, err := decoded(object)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = content
		}
		for _, component := range []string{"pd", "tikv", "tidb"} {
			n, _, _ := unstructured.NestedInt64(content, "spec", component, "replicas")
			members[component] += n
		}
	}
	spec, ok := first["spec"].(map[string]any)
	if !ok {
		return nil, failure.New(failure.Corrupt, "join tidbclusters", "", "the first one has no spec")
	}
	for component, n := range members {
		if part, has := spec[component].(map[string]any); has {
			part["replicas"] = n
		}
	}
	for _, field := range acrossFields() {
		delete(spec, field)
	}
	delete(first, "status")
	raw, err := json.Marshal(first)
	return raw, failure.Wrap(err, failure.Corrupt, "join tidbclusters", "")
}

func decoded(object json.RawMessage) (map[string]any, error) {
	var content map[string]any
	if err := decodeObject(object, &content); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read tidbcluster", "")
	}
	return content, nil
}
