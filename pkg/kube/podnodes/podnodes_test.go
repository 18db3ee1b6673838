package podnodes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
)

func read(t *testing.T, spec string) podnodes.Rules {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(spec), &fields))
	r, err := podnodes.Read(fields)
	require.NoError(t, err)
	return r
}

// affinity is a required node affinity of terms.
func affinity(terms string) string {
	return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`
}

const (
	ssd   = `{"matchExpressions":[{"key":"disk","operator":"In","values":["nvme","ssd"]}]}`
	large = `{"matchExpressions":[{"key":"cores","operator":"Gt","values":["7"]},{"key":"old","operator":"DoesNotExist"}]}`
)

// A pod is put on a node only if its selector, one term of its affinity, and its tolerations allow that.
func TestAdmit_AsTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1", Labels: map[string]string{"disk": "ssd", "cores": "8"}}}
		if change != nil {
			change(n)
		}
		return n
	}
	tainted := node(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "tikv", Effect: corev1.TaintEffectNoExecute}}
	})
	cordoned := node(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	for name, c := range map[string]struct {
		node *corev1.Node
		spec string
		want bool
	}{
		"nothing":                {node(nil), `{}`, true},
		"its label":              {node(nil), `{"nodeSelector":{"disk":"ssd"}}`, true},
		"another value":          {node(nil), `{"nodeSelector":{"disk":"hdd"}}`, false},
		"no such label":          {node(nil), `{"nodeSelector":{"disk":"ssd","pool":"a"}}`, false},
		"one of the values":      {node(nil), `{` + affinity(ssd) + `}`, true},
		"all of a term":          {node(nil), `{` + affinity(large) + `}`, true},
		"a part of a term":       {node(func(n *corev1.Node) { n.Labels["old"] = "" }), `{` + affinity(large) + `}`, false},
		"one of the terms":       {node(func(n *corev1.Node) { n.Labels["old"] = "" }), `{` + affinity(large+","+ssd) + `}`, true},
		"not in":                 {node(nil), `{` + affinity(`{"matchExpressions":[{"key":"disk","operator":"NotIn","values":["ssd"]}]}`) + `}`, false},
		"an empty term":          {node(nil), `{` + affinity(`{}`) + `}`, false},
		"selector, not affinity": {node(nil), `{"nodeSelector":{"disk":"hdd"},` + affinity(ssd) + `}`, false},
		"its name":               {node(nil), `{` + affinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n-1"]}]}`) + `}`, true},
		"another one's name":     {node(nil), `{` + affinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n-2"]}]}`) + `}`, false},
		"preferred only": {node(nil), `{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
			{"weight":1,"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["hdd"]}]}}]}}}`, true},
		"a taint":                 {tainted, `{}`, false},
		"tolerated":               {tainted, `{"tolerations":[{"key":"dedicated","value":"tikv"}]}`, true},
		"tolerated by its key":    {tainted, `{"tolerations":[{"key":"dedicated","operator":"Exists","effect":"NoExecute"}]}`, true},
		"tolerated, any":          {tainted, `{"tolerations":[{"operator":"Exists"}]}`, true},
		"another value tolerated": {tainted, `{"tolerations":[{"key":"dedicated","value":"tidb"}]}`, false},
		"another effect":          {tainted, `{"tolerations":[{"key":"dedicated","operator":"Exists","effect":"NoSchedule"}]}`, false},
		"cordoned":                {cordoned, `{"tolerations":[{"key":"dedicated","operator":"Exists"}]}`, false},
		"cordoned, tolerated":     {cordoned, `{"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := read(t, c.spec)
			require.Equal(t, c.want, r.Admit(c.node))
			both := podnodes.Rules{Tolerations: r.Tolerations, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: r.Required(),
			}}}
			require.Equal(t, c.want, both.Admit(c.node), "as one affinity")
		})
	}
}

func TestString_NamesWhatIsAsked(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{}`: "no tolerations",
		`{"nodeSelector":{"pool":"a","disk":"ssd"},` + affinity(ssd+","+large) + `,"tolerations":[{"operator":"Exists","effect":"NoSchedule"},{"key":"k","value":"v"}]}`: "nodeSelector disk=ssd,pool=a, " +
			"nodeAffinity disk in (nvme,ssd) or cores>7,!old, tolerations any:NoSchedule k=v",
	} {
		r := read(t, spec)
		require.Equal(t, want, r.String())
	}
}

func TestRead_Unreadable_Corrupt(t *testing.T) {
	t.Parallel()
	_, err := podnodes.Read(map[string]any{"nodeSelector": "disk"})
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
}
