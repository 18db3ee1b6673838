package operator2

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/podnodes"
)

// NodeRules returns what the Operator has the pods of a target's stores ask of their nodes, by the stores' ordinals: a
// topology counts before the node selector of the overlay. The zone of a topology is left out, as it is the volumes'.
func (m *Made) NodeRules() (map[int]podnodes.Rules, error) {
	of := map[int]podnodes.Rules{}
	for _, s := range m.Stores {
		overlay, _, _ := unstructured.NestedMap(s.TiKV.Object, "spec", "overlay", "pod", "spec")
		rules, err := podnodes.Read(overlay)
		if err != nil {
			return nil, err
		}
		topology, _, _ := unstructured.NestedStringMap(s.TiKV.Object, "spec", "topology")
		if rules.NodeSelector == nil {
			rules.NodeSelector = map[string]string{}
		}
		maps.Copy(rules.NodeSelector, topology)
		if _, has := topology[corev1.LabelTopologyZone]; has {
			delete(rules.NodeSelector, corev1.LabelTopologyZone)
		}
		ordinal, err := strconv.Atoi(s.TiKV.GetAnnotations()[ordinalKey])
		if err != nil {
			return nil, err
		}
		of[ordinal] = rules
	}
	return of, nil
}
