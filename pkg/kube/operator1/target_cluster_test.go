package operator1

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

func dst() cluster.Name { return cluster.Name{Namespace: "prod", Name: "dst"} }

func specOf(t *testing.T, source string, to Target) (spec map[string]any, dropped []string) {
	t.Helper()
	to.Name, to.Run = dst(), "r1"
	made, err := Make(json.RawMessage(source), to)
	require.NoError(t, err)
	return made.Object.Object["spec"].(map[string]any), made.Dropped
}

// After a failover the source has four stores Up with replicas: 3. A restore of it waited an hour for a fourth pod.
func TestNumberOfStores_SourceAfterAFailover_IsTheBackups(t *testing.T) {
	t.Parallel()
	const source = `{"spec": {"tikv": {"replicas": 3, "maxFailoverCount": 3}}, "status": {"tikv": {"failureStores": {"4": {}}}}}`
	for name, c := range map[string]struct {
		stores int
		want   int64
	}{"of the backup": {4, 4}, "not known": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, _ := specOf(t, source, Target{Stores: c.stores})
			require.Equal(t, c.want, spec["tikv"].(map[string]any)["replicas"])
		})
	}
	_, err := Make(json.RawMessage(`{"spec": {}}`), Target{Name: dst(), Run: "r1", Stores: 3})
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
}

func TestSizes_OfTheVolumes_AreTheSpecs(t *testing.T) {
	t.Parallel()
	const source = `{"spec": {"tikv": {"requests": {"cpu": "4", "storage": "10Gi"}, "storageVolumes": [
		{"name": "raft", "mountPath": "/var/lib/raft", "storageSize": "10240Mi"}, {"name": "wal", "mountPath": "/var/lib/wal", "storageSize": "5Gi"}]}}}`
	spec, _ := specOf(t, source, Target{SizesGiB: map[string]int64{"/var/lib/tikv": 200, "/var/lib/raft": 10, "/var/lib/wal": 20}})
	got, err := json.Marshal(spec["tikv"])
	require.NoError(t, err)
	require.JSONEq(t, `{"requests": {"cpu": "4", "storage": "200Gi"}, "maxFailoverCount": 0, "storageVolumes": [
		{"name": "raft", "mountPath": "/var/lib/raft", "storageSize": "10240Mi"}, {"name": "wal", "mountPath": "/var/lib/wal", "storageSize": "20Gi"}]}`, string(got))
}

const services = `{"spec": {
	"annotations": {"external-dns.alpha.kubernetes.io/hostname": "pods.example.com", "note": "keep"},
	"tidb": {"service": {"type": "NodePort", "mysqlNodePort": 30400, "statusNodePort": 30401, "loadBalancerIP": "10.0.0.9", "externalTrafficPolicy": "Local",
		"additionalPorts": [{"name": "x", "port": 1, "nodePort": 30402}],
		"annotations": {"external-dns.alpha.kubernetes.io/hostname": "db.example.com",
			"service.beta.kubernetes.io/aws-load-balancer-name": "db", "service.beta.kubernetes.io/aws-load-balancer-internal": "true"}}},
	"pd": {"service": {"clusterIP": "10.1.1.1", "type": "ClusterIP"}},
	"services": [{"name": "pd", "loadBalancerIP": "10.0.0.8"}]}}`

func TestServiceSettings_ByDefault_AreNotInTheCopyAndListed(t *testing.T) {
	t.Parallel()
	spec, dropped := specOf(t, services, Target{})
	require.Equal(t, []string{
		"spec.annotations.external-dns.alpha.kubernetes.io/hostname (pods.example.com)",
		"spec.pd.service.clusterIP (10.1.1.1)",
		"spec.tidb.service.loadBalancerIP (10.0.0.9)",
		"spec.tidb.service.mysqlNodePort (30400)",
		"spec.tidb.service.statusNodePort (30401)",
		"spec.tidb.service.annotations.external-dns.alpha.kubernetes.io/hostname (db.example.com)",
		"spec.tidb.service.annotations.service.beta.kubernetes.io/aws-load-balancer-name (db)",
		"spec.tidb.service.additionalPorts[0].nodePort (30402)",
		"spec.services[0].loadBalancerIP (10.0.0.8)",
	}, dropped)
	tidb, _, _ := unstructured.NestedMap(spec, "tidb", "service")
	require.Equal(t, map[string]any{
		"type": "NodePort", "externalTrafficPolicy": "Local",
		"additionalPorts": []any{map[string]any{"name": "x", "port": int64(1)}},
		// Without it the copy would be open to the world.
		"annotations": map[string]any{"service.beta.kubernetes.io/aws-load-balancer-internal": "true"},
	}, tidb)
	require.Equal(t, map[string]any{"note": "keep"}, spec["annotations"])
}

func TestServiceSettings_Kept_AreAsTheyWere(t *testing.T) {
	t.Parallel()
	spec, dropped := specOf(t, services, Target{KeepServiceSettings: true})
	require.Empty(t, dropped)
	port, _, _ := unstructured.NestedInt64(spec, "tidb", "service", "mysqlNodePort")
	require.EqualValues(t, 30400, port)
}

func TestAffinity_ToTheSourcesOwnLabels_IsToTheTargets(t *testing.T) {
	t.Parallel()
	const source = `{"metadata": {"name": "src", "labels": {"app.kubernetes.io/instance": "release-1"}}, "spec": {"tikv": {
		"affinity": {"podAntiAffinity": {"required": [{"labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "release-1"}}}]}},
		"topologySpreadConstraints": [{"labelSelector": {"matchExpressions": [{"key": "app.kubernetes.io/instance", "operator": "In", "values": ["release-1"]}]}}]},
		"pd": {"affinity": {"podAffinity": {"required": [{"labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "another"}}}]}}}}}`
	spec, _ := specOf(t, source, Target{})
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NotContains(t, string(text), "release-1")
	require.Equal(t, 2, strings.Count(string(text), `"dst"`))
	require.Contains(t, string(text), `"another"`)
}

// The API server takes the name; the StatefulSet then cannot make pods, and nothing reports it.
func TestNames_TooLongForTheOperator_AreRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	const source = `{"spec": {"pd": {}, "tikv": {}, "tidb": {}}}`
	for length, kind := range map[int]failure.Kind{47: failure.Unknown, 48: failure.Usage, 60: failure.Usage} {
		t.Run(strings.Repeat("x", length), func(t *testing.T) {
			t.Parallel()
			_, err := Make(json.RawMessage(source), Target{Name: cluster.Name{Namespace: "prod", Name: strings.Repeat("x", length)}, Run: "r1"})
			require.Equal(t, kind, failure.KindOf(err))
			if err != nil {
				require.Contains(t, failure.HintOf(err), "at most 47 characters")
			}
		})
	}
}

// recorded is a TidbCluster as the real Operator wrote it, of br's clustermeta.
func recorded(t *testing.T) json.RawMessage {
	t.Helper()
	b, err := os.ReadFile("../testdata/clustermeta.json")
	require.NoError(t, err)
	var r struct {
		Kubernetes struct {
			Cluster json.RawMessage `json:"crd_tidb_cluster"`
		} `json:"kubernetes"`
	}
	require.NoError(t, json.Unmarshal(b, &r))
	return r.Kubernetes.Cluster
}

func TestTargetCluster_Recorded_KeepsTheSpecOnly(t *testing.T) {
	t.Parallel()
	made, err := Make(recorded(t), Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"})
	require.NoError(t, err)
	o := made.Object
	assert.Equal(t, "pingcap.com/v1alpha1", o.GetAPIVersion())
	assert.Equal(t, "TidbCluster", o.GetKind())
	assert.Equal(t, map[string]any{
		"name": "dst", "namespace": "prod",
		"labels": map[string]any{runmark.Key: "r1"}, "annotations": map[string]any{runmark.Key: "r1", tidbReplicasKey: "1"},
	}, o.Object["metadata"])
	assert.NotContains(t, o.Object, "status")
	spec := o.Object["spec"].(map[string]any)
	assert.Equal(t, true, spec["recoveryMode"])
	assert.Equal(t, int64(3), spec["tikv"].(map[string]any)["replicas"])
	assert.Equal(t, "v7.5.1", spec["version"])
}

func TestTargetCluster_WhatOthersWrote_IsDropped(t *testing.T) {
	t.Parallel()
	made, err := Make(json.RawMessage(`{
		"metadata": {"labels": {"team": "db", "app.kubernetes.io/instance": "src", "app.kubernetes.io/managed-by": "Helm"},
			"annotations": {"note": "keep", "kubectl.kubernetes.io/last-applied-configuration": "{}", "argocd.argoproj.io/tracking-id": "x",
				"tidb.pingcap.com/tikv-volumes-ready": "true", "tikv.tidb.pingcap.com/delete-slots": "[1]", "tisnap.io/run": "old"}},
		"spec": {"paused": true, "unknownField": {"deep": [1, "x"]}, "tikv": {"replicas": 3}}}`),
		Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"})
	require.NoError(t, err)
	o := made.Object
	assert.Equal(t, map[string]string{"team": "db", "app.kubernetes.io/instance": "dst", runmark.Key: "r1"}, o.GetLabels())
	assert.Equal(t, map[string]string{"note": "keep", runmark.Key: "r1", failoverKey: "null"}, o.GetAnnotations())
	spec := o.Object["spec"].(map[string]any)
	assert.NotContains(t, spec, "paused")
	assert.Contains(t, spec, "unknownField")
}

func TestTargetCluster_BadSource_IsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]failure.Kind{
		`{`:                                      failure.Corrupt,
		`{"metadata": {}}`:                       failure.Corrupt,
		`{"spec": {"cluster": {"name": "src"}}}`: failure.Usage,
		`{"spec": {"pdAddresses": ["http://a"]}}`: failure.Usage,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := Make(json.RawMessage(text), Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"})
			assert.Equal(t, want, failure.KindOf(err))
		})
	}
}
