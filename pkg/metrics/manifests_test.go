package metrics_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/metrics"
)

// word is a metric in an expression with what is asked of its labels.
var word = regexp.MustCompile(`\b(tisnap_[a-z_]+)(\{[^}]*\})?`)

// expressions are the queries of the dashboard and the alerts, by the name of the panel or alert.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	const folder = "../../manifests/monitoring"
	text, err := os.ReadFile(filepath.Join(folder, "grafana-dashboard.json"))
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Query any }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	out := map[string][]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out["panel "+p.Title] = append(out["panel "+p.Title], target.Expr)
		}
	}
	text, err = os.ReadFile(filepath.Join(folder, "prometheusrule.yaml"))
	require.NoError(t, err)
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &rule))
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			out["alert "+r.Alert] = append(out["alert "+r.Alert], r.Expr)
		}
	}
	return out
}

// Every query of the dashboard and of the alerts is of metrics that exist, and asks for labels that they have.
func TestManifests_QueriesUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]metrics.Metric{}
	for _, m := range metrics.Table() {
		known[m.Name] = m
	}
	all := expressions(t)
	require.Greater(t, len(all), 15)
	for name, queries := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, query := range queries {
				found := word.FindAllStringSubmatch(query, -1)
				require.NotEmpty(t, found, query)
				labels := []string{}
				for _, m := range found {
					metric, exists := known[m[1]]
					require.True(t, exists, "%s in %s", m[1], query)
					labels = append(labels, metric.Labels...)
					for _, asked := range regexp.MustCompile(`([a-z]+)=`).FindAllStringSubmatch(m[2], -1) {
						assert.Contains(t, metric.Labels, asked[1], query)
					}
				}
				for _, by := range regexp.MustCompile(`(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
					for _, label := range strings.Split(by[1], ", ") {
						assert.True(t, slices.Contains(labels, label), "%s is no label in %s", label, query)
					}
				}
			}
		})
	}
}
