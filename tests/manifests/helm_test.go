package manifests

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The chart's exporter and alerts are those of manifests/monitoring.
func TestHelm_Monitoring_IsThatOfTheFiles(t *testing.T) {
	t.Parallel()
	set := Everything()
	maps.Copy(set, map[string]any{"image": map[string]any{"repository": "tisnap", "tag": "latest"}})
	made, err := Helm(set)
	require.NoError(t, err)
	want := Objects{}
	for _, file := range []string{"exporter.yaml", "prometheusrule.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "monitoring", file))
		require.NoError(t, err)
		require.NoError(t, want.add(text))
	}
	require.Len(t, want, 5)
	for key, u := range want {
		require.Contains(t, made, key)
		assert.Equal(t, typed(t, u), typed(t, made[key]), key)
	}

	without, err := Helm(nil)
	require.NoError(t, err)
	for key := range want {
		assert.NotContains(t, without, key)
	}
}

// Prometheus finds what has the labels that it selects.
func TestHelm_LabelsForPrometheus_AreAdded(t *testing.T) {
	t.Parallel()
	labels := map[string]any{"release": "prometheus"}
	on := map[string]any{"enabled": true, "labels": labels}
	made, err := Helm(map[string]any{"alerts": on, "exporter": map[string]any{"enabled": true, "serviceMonitor": on}})
	require.NoError(t, err)
	for key, own := range map[string]string{"ServiceMonitor tidb/tisnap-exporter": "tisnap-exporter", "PrometheusRule tidb/tisnap": "tisnap"} {
		require.Contains(t, made, key)
		assert.Equal(t, map[string]string{"app.kubernetes.io/name": own, "release": "prometheus"}, made[key].GetLabels(), key)
	}
}

func TestHelm_ExporterAccountThatExists_IsUsed(t *testing.T) {
	t.Parallel()
	made, err := Helm(map[string]any{"exporter": map[string]any{
		"enabled": true, "serviceAccount": map[string]any{"create": false, "name": "reader"},
	}})
	require.NoError(t, err)
	require.NotContains(t, made, "ServiceAccount tidb/reader")
	exporter, ok := typed(t, made["Deployment tidb/tisnap-exporter"]).(*appsv1.Deployment)
	require.True(t, ok)
	require.Equal(t, "reader", exporter.Spec.Template.Spec.ServiceAccountName)
	require.NotContains(t, made, "ServiceMonitor tidb/tisnap-exporter")
}

// Where pods run, and what they are given, is the same for all of them.
func TestHelm_ValuesOfPods_ReachEveryPod(t *testing.T) {
	t.Parallel()
	affinity := map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
		"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "tier", "operator": "Exists"}}}},
	}}}
	tolerations := []any{map[string]any{"key": "dedicated", "operator": "Equal", "value": "backup", "effect": "NoSchedule"}}
	env := []any{map[string]any{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}}
	set := Everything()
	maps.Copy(set, map[string]any{
		"nodeSelector": map[string]any{"pool": "backup"}, "tolerations": tolerations, "affinity": affinity,
		"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "priorityClassName": "high",
		"podAnnotations": map[string]any{"team": "storage"}, "annotations": map[string]any{"owner": "ops"}, "extraEnv": env,
	})
	made, err := Helm(set)
	require.NoError(t, err)
	pods := 0
	for key, u := range made {
		pod := podOf(typed(t, u))
		if pod == nil {
			continue
		}
		pods++
		assert.Equal(t, map[string]string{"owner": "ops"}, u.GetAnnotations(), key)
		assert.Equal(t, "storage", pod.Annotations["team"], key)
		assert.Equal(t, map[string]string{"pool": "backup"}, pod.Spec.NodeSelector, key)
		assert.Equal(t, "high", pod.Spec.PriorityClassName, key)
		assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.Spec.ImagePullSecrets, key)
		same(t, tolerations, pod.Spec.Tolerations)
		same(t, affinity, pod.Spec.Affinity)
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			same(t, env, c.Env)
		}
	}
	assert.Equal(t, 7, pods)
}

// same compares values as JSON.
func same(t *testing.T, want, got any) {
	t.Helper()
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, string(a), string(b))
}

// The pods of the Job that archives are made by the program: by its settings and their ServiceAccount they get to the
// same nodes, and the same image.
func TestHelm_ValuesOfPods_ReachWorkers(t *testing.T) {
	t.Parallel()
	set := map[string]any{
		"archive":          map[string]any{"enabled": true, "workers": 2, "workerEnv": map[string]any{"NO_PROXY": ".svc: a", "A": ""}},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}},
		"nodeSelector":     map[string]any{"pool": "backup", "example.com/disk": ""},
		"tolerations": []any{
			map[string]any{"key": "dedicated", "operator": "Equal", "value": "backup", "effect": "NoSchedule"},
			map[string]any{"key": "spot", "operator": "Exists"}, map[string]any{"key": "empty", "effect": "NoExecute"},
			map[string]any{"operator": "Exists"},
		},
	}
	made, err := Helm(set)
	require.NoError(t, err)
	account, ok := typed(t, made["ServiceAccount tidb/tisnap-worker"]).(*corev1.ServiceAccount)
	require.True(t, ok)
	assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, account.ImagePullSecrets)
	settings, ok := typed(t, made["ConfigMap tidb/tisnap-archive"]).(*corev1.ConfigMap)
	require.True(t, ok)
	assert.Equal(t, "example.com/disk=,pool=backup", settings.Data["TISNAP_WORKER_NODE_SELECTOR"])
	assert.Equal(t, "A=\nNO_PROXY=.svc: a\n", settings.Data["TISNAP_WORKER_ENV"])
	assert.Equal(t, "dedicated=backup:NoSchedule,spot:,empty=:NoExecute,:", settings.Data["TISNAP_WORKER_TOLERATION"])
}
