package operator1

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/podnodes"
)

// TiKVNodes returns what the Operator has TiKV's pods ask of their nodes: a component adds to the cluster's node
// selector, and has its own affinity and tolerations in place of the cluster's.
func TiKVNodes(o *unstructured.Unstructured) (podnodes.Rules, error) {
	spec, _ := o.Object["spec"].(map[string]any)
	tikv, _ := spec[TiKV].(map[string]any)
	all, err := podnodes.Read(spec)
	if err != nil {
		return all, err
	}
	own, err := podnodes.Read(tikv)
	if all.NodeSelector == nil {
		all.NodeSelector = map[string]string{}
	}
	maps.Copy(all.NodeSelector, own.NodeSelector)
	if own.Affinity != nil {
		all.Affinity = own.Affinity
	}
	if len(own.Tolerations) > 0 {
		all.Tolerations = own.Tolerations
	}
	return all, err
}
