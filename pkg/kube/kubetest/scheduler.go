package kubetest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// pickNode chooses the node for a TiKV pod: one that it selects and its bound volumes can be attached to, with the fewest
// TiKV pods, in the zone with the fewest. Without any it reports why, as the scheduler does.
func (o *Operator) pickNode(spec clusterSpec, obj *corev1.Pod, bound boundClaims) (name, why string) {
	perNode, perZone := map[string]int{}, map[string]int{}
	list := o.store.peekAll(nodes, "")
	zoneOf := map[string]string{}
	candidates := []corev1.Node{}
	for _, raw := range list {
		n := decoded[corev1.Node](o.store, raw)
		zoneOf[n.Name] = n.Labels[zoneLabel]
		if !n.Spec.Unschedulable && labels.SelectorFromSet(obj.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
			candidates = append(candidates, n)
		}
	}
	existing := o.store.peekAll(pods, "")
	for _, raw := range existing {
		p := decoded[corev1.Pod](o.store, raw)
		if p.Labels["app.kubernetes.io/component"] != "tikv" || p.Spec.NodeName == "" {
			continue
		}
		perNode[p.Spec.NodeName]++
		if p.Namespace == spec.name.Namespace && p.Labels[instanceLabel] == spec.instance {
			perZone[zoneOf[p.Spec.NodeName]]++
		}
	}
	fitting := slices.DeleteFunc(candidates, func(n corev1.Node) bool { return !reaches(&n, bound.pvs) })
	if len(fitting) == 0 {
		return "", fmt.Sprintf("0/%d nodes are available: %d node(s) had volume node affinity conflict.", len(list), len(list))
	}
	best := slices.MinFunc(fitting, func(a, b corev1.Node) int {
		if d := perZone[zoneOf[a.Name]] - perZone[zoneOf[b.Name]]; d != 0 && perNode[a.Name] == perNode[b.Name] {
			return d
		}
		if d := perNode[a.Name] - perNode[b.Name]; d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return best.Name, ""
}

// reaches reports whether all volumes may be used on the node, by their node affinity.
func reaches(n *corev1.Node, pvs []corev1.PersistentVolume) bool {
	for _, pv := range pvs {
		if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil && !matchesTerms(n, a.Required.NodeSelectorTerms) {
			return false
		}
	}
	return true
}

// matchesTerms needs one term all of whose expressions match.
func matchesTerms(n *corev1.Node, terms []corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		for _, e := range t.MatchExpressions {
			value, has := n.Labels[e.Key]
			if e.Operator != corev1.NodeSelectorOpIn || !has || !slices.Contains(e.Values, value) {
				return false
			}
		}
		return len(t.MatchExpressions) > 0
	})
}

// instanceOf reads the EC2 instance from the provider id "aws:///zone/i-...".
func instanceOf(n *corev1.Node) cluster.InstanceID {
	return cluster.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
}
