package operator2

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// tidbCluster is a TidbCluster of Operator 1.x; each change sets a field of its spec.
func tidbCluster(t *testing.T, changes ...any) json.RawMessage {
	t.Helper()
	o := object(t, `{"apiVersion":"pingcap.com/v1alpha1","kind":"TidbCluster","metadata":{"name":"prod","namespace":"tidb"},"spec":{
		"version":"v8.5.2","timezone":"UTC","paused":true,"enablePVReclaim":false,"tlsCluster":{"enabled":true},
		"pd":{"baseImage":"pingcap/pd","replicas":3,"requests":{"storage":"10Gi"},"storageClassName":"fast"},
		"tikv":{"baseImage":"mirror/tikv","replicas":2,"requests":{"cpu":"2","memory":"8Gi","storage":"100Gi"},"limits":{"cpu":"4","memory":"8Gi"},
			"storageClassName":"fast","config":"[raft-engine]\ndir = \"/wal/raft\"\n","labels":{"team":"a"},"affinity":{"nodeAffinity":{"x":"y"}},
			"storageVolumes":[{"name":"wal","mountPath":"/wal","storageSize":"20Gi"}]},
		"tidb":{"baseImage":"pingcap/tidb","replicas":2,"service":{"type":"NodePort"},"config":{"log":{"level":"warn"}}},
		"tiflash":{"replicas":1}}}`)
	for i := 0; i < len(changes); i += 2 {
		path := append([]string{"spec"}, changes[i].([]string)...)
		require.NoError(t, unstructured.SetNestedField(o.Object, changes[i+1], path...))
	}
	raw, err := o.MarshalJSON()
	require.NoError(t, err)
	return raw
}

func claimsOf1(names ...string) (claims []json.RawMessage) {
	for _, name := range names {
		claims = append(claims, json.RawMessage(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"`+name+
			`","namespace":"tidb","labels":{"app.kubernetes.io/instance":"prod","own":"x"}},"spec":{"storageClassName":"fast"}}`))
	}
	return claims
}

func TestTranslate_CarriesOverWhatAClusterNeeds(t *testing.T) {
	t.Parallel()
	made, err := Translate(tidbCluster(t), claimsOf1("tikv-prod-tikv-0", "tikv-wal-prod-tikv-0", "tikv-prod-tikv-11", "tikv-wal-prod-tikv-11"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"spec.tidb.service", "spec.tiflash", "spec.tikv.affinity", "spec.tikv.requests", "spec.timezone",
	}, made.Lost)

	to := Target{Name: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "r"}
	for _, pod := range []string{"tikv-tikv-000000", "tikv-tikv-000011"} {
		to.Stores = append(to.Stores, TargetStore{Pod: pod, Volumes: map[string]TargetVolume{"data": {"pv-" + pod, 100}, "wal": {"wal-" + pod, 20}}})
	}
	target, err := Make(made.Objects, to)
	require.NoError(t, err, "it is like a cluster that was recorded")
	require.Equal(t, true, at(t, target.Cluster, "spec.tlsCluster.enabled"))
	require.Nil(t, at(t, target.Cluster, "spec.version"))
	require.Len(t, target.Early, 2)
	pds, stores, sql := target.Early[0], target.Early[1], target.Late[0]
	require.Equal(t, int64(3), at(t, pds, "spec.replicas"))
	require.Equal(t, int64(2), at(t, stores, "spec.replicas"))
	require.Equal(t, "v8.5.2", at(t, stores, "spec.template.spec.version"))
	require.Equal(t, "mirror/tikv", at(t, stores, "spec.template.spec.image"))
	require.Equal(t, "a", at(t, stores, "spec.template.metadata.labels.team"))
	require.Equal(t, "4", at(t, stores, "spec.template.spec.resources.cpu"), "the limit")
	require.Equal(t, "8Gi", at(t, stores, "spec.template.spec.resources.memory"))
	require.Equal(t, "[raft-engine]\ndir = \"/wal/raft\"\n", at(t, stores, "spec.template.spec.config"))
	require.Contains(t, at(t, sql, "spec.template.spec.config"), "level = 'warn'")
	require.Nil(t, at(t, sql, "spec.template.spec.volumes"))
	require.Equal(t, []any{map[string]any{
		"name": "data", "mounts": []any{map[string]any{"type": "data"}}, "storage": "10Gi", "storageClassName": "fast",
	}}, at(t, pds, "spec.template.spec.volumes"))
	volumes, _ := at(t, stores, "spec.template.spec.volumes").([]any)
	require.Equal(t, []any{map[string]any{"type": "wal", "mountPath": "/wal"}}, volumes[1].(map[string]any)["mounts"], "2.0 demands a type")
	require.Equal(t, "copy-tikv-000011", target.Stores[1].TiKV.GetName())
	require.Equal(t, "fast", *target.Stores[1].Claims[1].Spec.StorageClassName)

	last := object(t, string(made.Claims[3]))
	require.True(t, IsStoreOf("prod", last.GetLabels()))
	require.Equal(t, "x", last.GetLabels()["own"])
	require.Equal(t, "fast", at(t, &last, "spec.storageClassName"))
	require.Equal(t, []string{"tikv-000011", "wal"}, []string{last.GetLabels()[instanceLabel], last.GetLabels()[volumeLabel]})
}

func TestTranslate_DataDir_IsTheOperators(t *testing.T) {
	t.Parallel()
	made, err := Translate(tidbCluster(t, []string{"tikv", "config"}, "[storage]\ndata-dir = '/var/lib/tikv'\nreserve-space = '1GB'\n"), nil)
	require.NoError(t, err)
	stores := object(t, string(made.Objects[2]))
	require.NotContains(t, at(t, &stores, "spec.template.spec.config"), "data-dir", "TiDB Operator 2.x refuses it")
	require.Contains(t, at(t, &stores, "spec.template.spec.config"), "reserve-space = '1GB'")
}

func TestTranslate_WhatOperator2CouldNotOpen_IsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		source json.RawMessage
		claims []json.RawMessage
		kind   failure.Kind
		want   string
	}{
		"a folder of the volume":    {source: tidbCluster(t, []string{"tikv", "dataSubDir"}, "db"), kind: failure.Unready, want: "in the folder db"},
		"a volume named data":       {source: tidbCluster(t, []string{"tikv", "storageVolumes"}, []any{map[string]any{"name": "data", "mountPath": "/b", "storageSize": "1Gi"}}), kind: failure.Unready, want: "is named data"},
		"another folder":            {source: tidbCluster(t, []string{"tikv", "config"}, "storage.data-dir = '/data'"), kind: failure.Unready, want: "stores data in /data"},
		"a claim of no TiKV":        {source: tidbCluster(t), claims: claimsOf1("pd-prod-pd-0"), kind: failure.Corrupt, want: "claim pd-prod-pd-0 is of no TiKV pod"},
		"an unreadable claim":       {source: tidbCluster(t), claims: []json.RawMessage{[]byte("{")}, kind: failure.Corrupt, want: "a claim"},
		"an unreadable config":      {source: tidbCluster(t, []string{"tidb", "config"}, "["), kind: failure.Corrupt, want: "spec.tidb.config"},
		"no spec":                   {source: json.RawMessage(`{"metadata":{"name":"a"}}`), kind: failure.Corrupt, want: "no spec"},
		"an unreadable TidbCluster": {source: json.RawMessage(`{`), kind: failure.Corrupt, want: "translate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Translate(row.source, row.claims)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}
