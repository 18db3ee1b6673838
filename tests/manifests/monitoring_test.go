package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// monitored decodes an object of manifests/monitoring into the type of Kubernetes or of Prometheus Operator that it has to be, and
// refuses fields that this does not have.
func monitored[T any](t *testing.T, file, key string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "monitoring", file))
	require.NoError(t, err)
	objects := Objects{}
	require.NoError(t, objects.add(text))
	require.Contains(t, objects, key)
	raw, err := json.Marshal(objects[key])
	require.NoError(t, err)
	into := new(T)
	require.NoError(t, yaml.UnmarshalStrict(raw, into), key)
	return into
}

// durations are as the Operator's CustomResourceDefinition takes them: the pattern of its type Duration.
var durations = regexp.MustCompile(`^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`)

// The ServiceMonitor is one that Prometheus Operator takes, and leads by way of the Service to the exporter's port.
func TestMonitoring_ServiceMonitor_LeadsToTheExporter(t *testing.T) {
	t.Parallel()
	monitor := monitored[monitoring.ServiceMonitor](t, "exporter.yaml", "ServiceMonitor tidb/tisnap-exporter")
	service := monitored[corev1.Service](t, "exporter.yaml", "Service tidb/tisnap-exporter")
	exporter := monitored[appsv1.Deployment](t, "exporter.yaml", "Deployment tidb/tisnap-exporter")
	assert.Equal(t, "monitoring.coreos.com/v1", monitor.APIVersion)
	require.NotEmpty(t, monitor.Spec.Selector.MatchLabels)
	assert.Subset(t, service.Labels, monitor.Spec.Selector.MatchLabels)
	assert.Subset(t, exporter.Spec.Template.Labels, service.Spec.Selector)
	require.Len(t, monitor.Spec.Endpoints, 1)
	endpoint := monitor.Spec.Endpoints[0]
	require.Len(t, service.Spec.Ports, 1)
	assert.Equal(t, service.Spec.Ports[0].Name, endpoint.Port)
	assert.Equal(t, service.Spec.Ports[0].TargetPort.StrVal, exporter.Spec.Template.Spec.Containers[0].Ports[0].Name)
	assert.Regexp(t, durations, string(endpoint.Interval))
	interval, err := time.ParseDuration(string(endpoint.Interval))
	require.NoError(t, err)
	limit, err := time.ParseDuration(string(endpoint.ScrapeTimeout))
	require.NoError(t, err)
	assert.LessOrEqual(t, limit, interval, "the Operator refuses a longer one")
}

// The PrometheusRule is one that Prometheus Operator takes; promtool tests its rules.
func TestMonitoring_PrometheusRule_IsOfTheOperator(t *testing.T) {
	t.Parallel()
	rule := monitored[monitoring.PrometheusRule](t, "prometheusrule.yaml", "PrometheusRule tidb/tisnap")
	assert.Equal(t, "monitoring.coreos.com/v1", rule.APIVersion)
	require.NotEmpty(t, rule.Spec.Groups)
	for _, g := range rule.Spec.Groups {
		require.NotEmpty(t, g.Name)
		require.NotEmpty(t, g.Rules)
		for _, r := range g.Rules {
			assert.NotEmpty(t, r.Alert)
			assert.NotEmpty(t, r.Expr.StrVal, r.Alert)
			if r.For != nil {
				assert.Regexp(t, durations, string(*r.For), r.Alert)
			}
		}
	}
}
