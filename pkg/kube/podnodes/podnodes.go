package podnodes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Rules are what a pod asks of its node. Those of other pods, such as anti-affinity, are not among them.
type Rules struct {
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity    `json:"affinity,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// Read reads them from the spec of a pod, or of anything that has the same fields. Unreadable ones are Corrupt.
func Read(spec map[string]any) (r Rules, err error) {
	fields := map[string]any{}
	for _, field := range []string{"nodeSelector", "affinity", "tolerations"} {
		fields[field] = spec[field]
	}
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, failure.Wrap(err, failure.Corrupt, "read node selector", "")
}

// required is the required node affinity; nil if there is none.
func (r *Rules) required() *corev1.NodeSelector {
	if r.Affinity == nil || r.Affinity.NodeAffinity == nil {
		return nil
	}
	return r.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// Admit reports whether the scheduler may put the pod on a node, as far as that has room.
func (r *Rules) Admit(node *corev1.Node) bool {
	return labels.SelectorFromSet(r.NodeSelector).Matches(labels.Set(node.Labels)) && r.matches(node) &&
		r.tolerate(node)
}

// matches reports whether a node is one of the required node affinity: by all of any term.
func (r *Rules) matches(node *corev1.Node) bool {
	required := r.required()
	return required == nil || slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && // an empty one is of no node
			all(t.MatchExpressions, node.Labels) &&
			all(t.MatchFields, map[string]string{metav1.ObjectNameField: node.Name})
	})
}

func all(of []corev1.NodeSelectorRequirement, has labels.Set) bool {
	return !slices.ContainsFunc(of, func(one corev1.NodeSelectorRequirement) bool {
		needed, err := requirement(one)
		return err != nil || !needed.Matches(has)
	})
}

func requirement(of corev1.NodeSelectorRequirement) (*labels.Requirement, error) {
	operators := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}
	return labels.NewRequirement(of.Key, operators[of.Operator], of.Values)
}

// tolerate reports whether the pod tolerates all taints of a node; a cordoned one has one more.
func (r *Rules) tolerate(node *corev1.Node) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{
			Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(r.Tolerations, func(t corev1.Toleration) bool {
				return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
					(t.Operator == corev1.TolerationOpExists ||
						(t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value)
			})
	})
}

// Required are the node selector and the required node affinity as one node affinity; nil if there are none.
func (r *Rules) Required() *corev1.NodeSelector {
	var labelled []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(r.NodeSelector)) {
		labelled = append(labelled, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{r.NodeSelector[key]},
		})
	}
	required := r.required().DeepCopy()
	switch {
	case len(labelled) == 0:
		return required
	case required == nil:
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: labelled}}}
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 { // otherwise it would not be of no node any more
			term.MatchExpressions = slices.Concat(labelled, term.MatchExpressions)
		}
	}
	return required
}

// String is such as "nodeSelector disk=ssd, nodeAffinity zone in (a,b) or !old, tolerations dedicated=tikv:NoSchedule".
func (r *Rules) String() string {
	var parts []string
	if len(r.NodeSelector) > 0 {
		parts = append(parts, "nodeSelector "+labels.Set(r.NodeSelector).String())
	}
	if required := r.required(); required != nil {
		var terms []string
		for _, t := range required.NodeSelectorTerms {
			terms = append(terms, text(slices.Concat(t.MatchExpressions, t.MatchFields)))
		}
		parts = append(parts, "nodeAffinity "+strings.Join(terms, " or "))
	}
	var tolerated []string
	for _, t := range r.Tolerations {
		one := corev1.Taint{Key: cmp.Or(t.Key, "any"), Value: t.Value, Effect: t.Effect}
		tolerated = append(tolerated, strings.TrimSuffix(one.ToString(), ":"))
	}
	if len(tolerated) == 0 {
		return strings.Join(append(parts, "no tolerations"), ", ")
	}
	return strings.Join(append(parts, "tolerations "+strings.Join(tolerated, " ")), ", ")
}

func text(of []corev1.NodeSelectorRequirement) string {
	words := make([]string, len(of))
	for i, one := range of {
		words[i] = one.Key
		if needed, err := requirement(one); err == nil {
			words[i] = needed.String()
		}
	}
	return strings.Join(words, ",")
}
