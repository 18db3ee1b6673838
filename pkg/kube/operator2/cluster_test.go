package operator2

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func prod() cluster.Name { return cluster.Name{Namespace: "tidb", Name: "prod"} }

func object(t *testing.T, text string) unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON([]byte(text)))
	return o
}

// steady is a cluster of two TiKVGroups with a store each, as the API server has it. Each change replaces a part of all
// of its texts, in one of which it must be.
func steady(t *testing.T, changes ...string) Objects {
	t.Helper()
	texts := []string{
		`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster",
		"metadata":{"name":"prod","namespace":"tidb","uid":"u","labels":{"team":"a"},"resourceVersion":"7"},
		"spec":{},"status":{"pd":"http://prod-pd.tidb:2379"}}`,
		group("PDGroup", "pd", 3), group("TiKVGroup", "hot", 1), group("TiKVGroup", "cold", 1), group("TiDBGroup", "db", 2),
		store("hot", "1"), store("cold", "4"),
	}
	for i := 0; i < len(changes); i += 2 {
		require.Contains(t, strings.Join(texts, ""), changes[i])
		for j := range texts {
			texts[j] = strings.ReplaceAll(texts[j], changes[i], changes[i+1])
		}
	}
	c := object(t, texts[0])
	all := Objects{Cluster: &c}
	for _, text := range texts[1:5] {
		all.Groups = append(all.Groups, object(t, text))
	}
	for _, text := range texts[5:] {
		all.TiKVs = append(all.TiKVs, object(t, text))
	}
	return all
}

func group(kind, name string, replicas int) string {
	count, _ := json.Marshal(replicas)
	return `{"apiVersion":"core.pingcap.com/v1alpha1","kind":"` + kind + `",
	"metadata":{"name":"` + name + `","namespace":"tidb","generation":2},
	"spec":{"cluster":{"name":"prod"},"replicas":` + string(count) + `,"template":{"spec":{"version":"v8.5.2"}}},
	"status":{"observedGeneration":2,"currentRevision":"` + name + `","updateRevision":"` + name + `"}}`
}

func store(group, id string) string {
	return `{"apiVersion":"core.pingcap.com/v1alpha1","kind":"TiKV",
	"metadata":{"name":"` + group + `-x7k2p9","namespace":"tidb","generation":1,"labels":{"pingcap.com/group":"` + group + `"}},
	"spec":{"config":"# of ` + group + `","volumes":[{"name":"data","mounts":[{"type":"data"}]},
		{"name":"wal","mounts":[{"mountPath":"/wal"}]}]},
	"status":{"observedGeneration":1,"currentRevision":"r","updateRevision":"r","id":"` + id + `","state":"Serving",
		"conditions":[{"type":"Offlined","status":"False"}]}}`
}

func TestRead_SeveralGroups(t *testing.T) {
	t.Parallel()
	c, err := Read(prod(), steady(t))
	require.NoError(t, err)
	require.NoError(t, c.Unsteady)
	require.Equal(t, map[cluster.StoreID]string{1: "hot-tikv-x7k2p9", 4: "cold-tikv-x7k2p9"}, c.Stores)
	require.Equal(t, []int{3, 2, 2}, []int{c.PDReplicas, c.TiKVReplicas, c.TiDBReplicas})
	require.Equal(t, "v8.5.2", c.Version)
	require.Equal(t, "http://prod-pd.tidb.svc:2379", c.PD)
	require.Equal(t, "# of cold", c.Config("cold-tikv-x7k2p9"))
	require.False(t, c.TLS)
}

func TestRead_PDIsElsewhere_ItsURLIsKept(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://prod-pd.tidb.svc.cluster.local:2379", "http://127.0.0.1:4000", ""} {
		c, err := Read(prod(), steady(t, "http://prod-pd.tidb:2379", url))
		require.NoError(t, err)
		require.Equal(t, url, c.PD)
	}
}

func TestData_IsFoundByItsTypeOfMount(t *testing.T) {
	t.Parallel()
	c, err := Read(prod(), steady(t))
	require.NoError(t, err)
	path, ok := c.Data("hot-tikv-x7k2p9", "ti-vol-data")
	require.True(t, ok)
	require.Equal(t, "/var/lib/tikv", path)
	_, ok = c.Data("hot-tikv-x7k2p9", "ti-vol-wal")
	require.False(t, ok)

	c, err = Read(prod(), steady(t, `{"type":"data"}`, `{"mountPath":"/a"},{"type":"data","mountPath":"/disk"}`))
	require.NoError(t, err)
	path, _ = c.Data("hot-tikv-x7k2p9", "ti-vol-data")
	require.Equal(t, "/disk", path)
}

func TestRead_ClientSecrets_ByDefaultAndByName(t *testing.T) {
	t.Parallel()
	c, err := Read(prod(), steady(t, `"spec":{},`, `"spec":{"tlsCluster":{"enabled":true}},`))
	require.NoError(t, err)
	require.True(t, c.TLS)
	require.Equal(t, []string{"prod-cluster-client-secret", "prod-cluster-client-secret"}, []string{c.ClientCA, c.ClientPair})

	c, err = Read(prod(), steady(t, `"spec":{},`, `"spec":{"tlsCluster":{"enabled":true},"security":{"tls":{"client":{`+
		`"ca":{"name":"roots"},"certKeyPair":{"name":"mine"}}}}},`))
	require.NoError(t, err)
	require.Equal(t, []string{"roots", "mine"}, []string{c.ClientCA, c.ClientPair})
}

func TestRead_Recorded_HasTheSpecsWithoutStatus(t *testing.T) {
	t.Parallel()
	all := steady(t)
	c, err := Read(prod(), all)
	require.NoError(t, err)
	require.Len(t, c.Recorded, 1+len(all.Groups)+len(all.TiKVs))
	require.JSONEq(t, `{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster",
		"metadata":{"name":"prod","namespace":"tidb","uid":"u","labels":{"team":"a"}},"spec":{}}`, string(c.Recorded[0]))
	for _, o := range c.Recorded {
		require.NotContains(t, string(o), "status")
	}
}

func TestRead_WhatTheOperatorChanges_IsUnsteady(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, from, to, why string }{
		{"deleted", `"uid":"u",`, `"uid":"u","deletionTimestamp":"2026-11-26T10:00:00Z",`, "it is being deleted"},
		{"suspended", `"spec":{},`, `"spec":{"suspendAction":{"suspendCompute":true}},`, "it is suspended"},
		{"paused", `"spec":{},`, `"spec":{"paused":true},`, "it is paused"},
		{"rolling", `"updateRevision":"hot"`, `"updateRevision":"new"`, "TiKVGroup hot is being updated"},
		{"PD rolling", `"updateRevision":"pd"`, `"updateRevision":"new"`, "PDGroup pd is being updated"},
		{"changed", `"cold","namespace":"tidb","generation":2`, `"cold","namespace":"tidb","generation":3`, "TiKVGroup cold was changed"},
		{"scaled", `"replicas":1`, `"replicas":2`, "TiKVGroup hot is being scaled"},
		{"offline", `"config":"# of hot"`, `"offline":true`, "TiKV hot-x7k2p9 is being taken offline"},
		{"offlined", `"status":"False"`, `"status":"True"`, "TiKV hot-x7k2p9 is being taken offline"},
		{"removing", `"Serving"`, `"Removing"`, "TiKV hot-x7k2p9 is being taken offline"},
		{"store rolling", `"updateRevision":"r"`, `"updateRevision":"s"`, "TiKV hot-x7k2p9 is being updated"},
		{
			"store deleted", `"hot-x7k2p9",`, `"hot-x7k2p9","deletionTimestamp":"2026-11-26T10:00:00Z",`,
			"TiKV hot-x7k2p9 is being deleted",
		},
		{"new store", `"id":"4"`, `"id":""`, "TiKV cold-x7k2p9 has no store id yet"},
		{"unreadable id", `"id":"4"`, `"id":"four"`, "TiKV cold-x7k2p9 has no store id yet"},
		{"same id", `"id":"4"`, `"id":"1"`, "TiKV hot-x7k2p9 and TiKV cold-x7k2p9 have the same store id 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, err := Read(prod(), steady(t, row.from, row.to))
			require.NoError(t, err, "such a cluster must be released, too")
			require.Equal(t, failure.Unready, failure.KindOf(c.Unsteady), "%v", c.Unsteady)
			require.ErrorContains(t, c.Unsteady, row.why)
			require.NotEmpty(t, failure.HintOf(c.Unsteady))
		})
	}
}

func TestRead_TiDBRolls_IsSteady(t *testing.T) {
	t.Parallel()
	c, err := Read(prod(), steady(t, `"updateRevision":"db"`, `"updateRevision":"new"`))
	require.NoError(t, err)
	require.NoError(t, c.Unsteady)
}

func TestRead_Unreadable_IsCorrupt(t *testing.T) {
	t.Parallel()
	_, err := Read(prod(), steady(t, `"replicas":3`, `"replicas":"three"`))
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "read pdgroup of tidb/pd")
}
