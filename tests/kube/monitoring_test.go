package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The files of manifests/ with objects of Prometheus Operator.
const (
	exporter = "monitoring/exporter.yaml"
	rules    = "monitoring/prometheusrule.yaml"
)

// monitored is the object of a kind in a file of manifests/, to be made in the system's own namespace.
func (s system) monitored(t *testing.T, file, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range documents(t, "../../manifests/"+file) {
		if o.GetKind() == kind {
			o.SetNamespace(s.namespace)
			return o
		}
	}
	require.Fail(t, "no "+kind, file)
	return nil
}

// The objects of Prometheus Operator are taken by the API server, which has the Operator's own definitions, as they are
// and in full: nothing is pruned. Each copy with one mistake is refused, and the error names the field.
func TestMonitoring_IsTakenByTheAPIServer_AndEachMistakeIsRefused(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	for _, row := range []struct {
		kind, file string
		mistakes   map[string]func(spec map[string]any) // by the text of the refusal
	}{
		{"ServiceMonitor", exporter, map[string]func(map[string]any){
			`unknown field "spec.endpoints[0].scrapeTimeOut"`: func(spec map[string]any) { rename(first(spec, "endpoints"), "scrapeTimeout", "scrapeTimeOut") },
			`unknown field "spec.selector.matchLabel"`:        func(spec map[string]any) { rename(spec["selector"].(map[string]any), "matchLabels", "matchLabel") },
			"spec.endpoints[0].interval: Invalid value":       func(spec map[string]any) { first(spec, "endpoints")["interval"] = "1 minute" },
			"spec.selector: Required value":                   func(spec map[string]any) { delete(spec, "selector") },
		}},
		{"PrometheusRule", rules, map[string]func(map[string]any){
			`unknown field "spec.groups[0].rules[0].annotation"`: func(spec map[string]any) { rename(first(first(spec, "groups"), "rules"), "annotations", "annotation") },
			`unknown field "spec.group"`:                         func(spec map[string]any) { rename(spec, "groups", "group") },
			"spec.groups[0].rules[0].for: Invalid value":         func(spec map[string]any) { first(first(spec, "groups"), "rules")["for"] = "soon" },
			"spec.groups[0].rules[0].expr: Required value":       func(spec map[string]any) { delete(first(first(spec, "groups"), "rules"), "expr") },
		}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			t.Parallel()
			o := s.monitored(t, row.file, row.kind)
			resource := s.resource(t, o)
			for refusal, mistake := range row.mistakes {
				bad := o.DeepCopy()
				mistake(bad.Object["spec"].(map[string]any))
				_, err := resource.Create(t.Context(), bad, strict)
				assert.ErrorContains(t, err, refusal)
			}
			made, err := resource.Create(t.Context(), o, strict)
			require.NoError(t, err)
			assert.Equal(t, o.Object["spec"], made.Object["spec"])
		})
	}
}

// first is the first object of a list in an object.
func first(o map[string]any, list string) map[string]any {
	return o[list].([]any)[0].(map[string]any)
}

func rename(o map[string]any, from, to string) {
	o[to] = o[from]
	delete(o, from)
}
