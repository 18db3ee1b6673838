package operator2

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// recorded2 is a cluster of Operator 2.x with two groups of TiKV; each change replaces a text.
func recorded2(changes ...string) (objects, claims []json.RawMessage) {
	store := `"config":"[raft-engine]\ndir = \"/wal/raft\"\n","version":"v8.5.2","volumes":[
		{"name":"data","mounts":[{"type":"data"}],"storage":"100Gi"},
		{"name":"wal","mounts":[{"mountPath":"/wal"}],"storage":"20Gi","storageClassName":"fast"}]`
	change := strings.NewReplacer(changes...)
	add := func(kind, name, rest string) {
		objects = append(objects, json.RawMessage(change.Replace(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"`+kind+
			`","metadata":{"name":"`+name+`","namespace":"tidb",`+rest+`}`)))
	}
	group := func(kind, name, more, template string) {
		add(kind, name, `"uid":"u"},"spec":{"cluster":{"name":"prod"},"replicas":2,`+more+`"template":{"metadata":{"labels":{"of":"`+name+`"}},"spec":{`+template+`}}}`)
	}
	add("Cluster", "prod", `"uid":"u"},"spec":{"tlsCluster":{"enabled":true},"bootstrapSQL":{"name":"sql"},"upgradePolicy":"Default"}`)
	group("PDGroup", "pd", `"bootstrapped":true,`, `"version":"v8.5.2","image":"mirror/pd:v8.5.2-fix","volumes":[{"name":"meta","mounts":[{"type":"data"}],"storage":"10Gi","storageClassName":"fast"}]`)
	group("TiKVGroup", "cold", "", store+`,"resources":{"cpu":"4","memory":"8Gi"},"updateStrategy":{"config":"Restart"}`)
	group("TiKVGroup", "hot", `"schedulePolicies":[{"type":"EvenlySpread"}],`, store+`,"resources":{"cpu":"16","memory":"8Gi"}`)
	group("TiDBGroup", "db", "", `"version":"v8.5.2","image":"mirror/tidb@sha256:ab","updateStrategy":{"config":"HotReload"}`)
	group("TiDBGroup", "report", "", `"version":"v8.5.2"`)
	group("TiFlashGroup", "flash", "", `"version":"v8.5.2"`)
	for _, instance := range []string{"hot-bbbbbb", "cold-aaaaaa"} {
		of, _, _ := strings.Cut(instance, "-")
		add("TiKV", instance, `"labels":{"pingcap.com/group":"`+of+`"}},"spec":{}`)
		for _, volume := range []string{"data", "wal"} {
			claims = append(claims, json.RawMessage(change.Replace(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"`+volume+"-"+podName(instance)+
				`","namespace":"tidb","labels":{"pingcap.com/instance":"`+instance+`","pingcap.com/group":"`+of+`","pingcap.com/volume-name":"`+volume+
				`","tidb.pingcap.com/store-id":"7","own":"x"}},"spec":{"storageClassName":"slow"}}`)))
		}
	}
	return objects, claims
}

func TestToTidbCluster_CarriesOverWhatAClusterNeeds(t *testing.T) {
	t.Parallel()
	made, err := ToTidbCluster(recorded2())
	require.NoError(t, err)
	tc := object(t, string(made.Object))
	require.Equal(t, "TidbCluster", tc.GetKind())
	require.Equal(t, "tidb/prod", tc.GetNamespace()+"/"+tc.GetName())
	require.JSONEq(t, `{"version":"v8.5.2","tlsCluster":{"enabled":true},
		"pd":{"replicas":2,"config":"","baseImage":"mirror/pd","version":"v8.5.2-fix","configUpdateStrategy":"RollingUpdate","labels":{"of":"pd"},
			"requests":{"storage":"10Gi"},"storageClassName":"fast"},
		"tikv":{"replicas":2,"config":"[raft-engine]\ndir = \"/wal/raft\"\n","configUpdateStrategy":"RollingUpdate","labels":{"of":"cold"},
			"limits":{"cpu":"4","memory":"8Gi"},"requests":{"cpu":"4","memory":"8Gi","storage":"100Gi"},"storageClassName":"slow",
			"storageVolumes":[{"name":"wal","mountPath":"/wal","storageSize":"20Gi","storageClassName":"fast"}]},
		"tidb":{"replicas":2,"config":"","labels":{"of":"db"},"service":{"type":"ClusterIP"}}}`, jsonOf(t, tc.Object["spec"]))
	require.Equal(t, []string{
		"Cluster spec.bootstrapSQL", "Cluster spec.upgradePolicy", "TiDBGroup db spec.template.spec.image", "TiDBGroup db spec.template.spec.updateStrategy",
		"TiDBGroup report", "TiFlashGroup flash", "TiKVGroup hot spec.schedulePolicies", "TiKVGroup hot spec.template.metadata.labels",
		"TiKVGroup hot spec.template.spec.resources", "TiKVGroup hot spec.template.spec.updateStrategy",
	}, made.Lost)
	require.Equal(t, []Config{{"hot", "[raft-engine]\ndir = \"/wal/raft\"\n", "[raft-engine]\ndir = \"/wal/raft\"\n"}}, made.Configs)
	require.Equal(t, map[string]string{
		"data-cold-tikv-aaaaaa": "tikv-prod-tikv-0", "wal-cold-tikv-aaaaaa": "tikv-wal-prod-tikv-0",
		"data-hot-tikv-bbbbbb": "tikv-prod-tikv-1", "wal-hot-tikv-bbbbbb": "tikv-wal-prod-tikv-1",
	}, made.Renamed)
	claim := object(t, string(made.Claims[1]))
	require.Equal(t, "tikv-wal-prod-tikv-1", claim.GetName())
	require.Equal(t, map[string]string{"tidb.pingcap.com/pod-name": "prod-tikv-1"}, claim.GetAnnotations())
	require.Equal(t, map[string]string{
		"app.kubernetes.io/name": "tidb-cluster", "app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/component": "tikv",
		"app.kubernetes.io/instance": "prod", "tidb.pingcap.com/store-id": "7", "own": "x",
	}, claim.GetLabels())
	require.Equal(t, "slow", at(t, &claim, "spec.storageClassName"))

}

// Both ways give the cluster that there was, as far as either carries it over.
func TestToTidbCluster_OfATranslatedOne_IsTheSame(t *testing.T) {
	t.Parallel()
	claims := claimsOf1("tikv-prod-tikv-0", "tikv-wal-prod-tikv-0", "tikv-prod-tikv-1", "tikv-wal-prod-tikv-1")
	there, err := Translate(tidbCluster(t), claims)
	require.NoError(t, err)
	back, err := ToTidbCluster(there.Objects, there.Claims)
	require.NoError(t, err)
	require.Empty(t, back.Lost)
	for from, to := range back.Renamed {
		require.Equal(t, from, to)
	}
	was, is := tidbCluster(t), object(t, string(back.Object))
	before := object(t, string(was))
	for _, path := range []string{
		"version", "tlsCluster", "pd.replicas", "pd.baseImage", "pd.requests", "pd.storageClassName", "tikv.replicas", "tikv.baseImage", "tikv.limits", "tikv.config",
		"tikv.storageClassName", "tikv.labels", "tidb.replicas", "tidb.baseImage",
	} {
		require.Equal(t, at(t, &before, "spec."+path), at(t, &is, "spec."+path), path)
	}
}

func TestToTidbCluster_WhatOperator1CouldNotOpen_IsRefused(t *testing.T) {
	t.Parallel()
	unready := func(changes ...string) func() ([]json.RawMessage, []json.RawMessage) {
		return func() (objects, claims []json.RawMessage) { return recorded2(changes...) }
	}
	// one replaces a text in the object of a name alone.
	one := func(name, from, to string) func() ([]json.RawMessage, []json.RawMessage) {
		return func() (objects, claims []json.RawMessage) {
			objects, claims = recorded2()
			for i, raw := range objects {
				if strings.Contains(string(raw), `"metadata":{"name":"`+name+`"`) {
					objects[i] = json.RawMessage(strings.Replace(string(raw), from, to, 1))
				}
			}
			return objects, claims
		}
	}
	for name, row := range map[string]struct {
		of   func() (objects, claims []json.RawMessage)
		kind failure.Kind
		want string
	}{
		"another mount in a group":   {one("hot", `"mountPath":"/wal"`, `"mountPath":"/log"`), failure.Unready, "TiKVGroups cold and hot differ"},
		"another version in a group": {one("hot", "v8.5.2", "v8.5.1"), failure.Unready, "TiKVGroups cold and hot differ"},
		"another data path":          {unready(`{"type":"data"}`, `{"type":"data","mountPath":"/data"}`), failure.Unready, "store data in /data"},
		"a folder of the volume":     {unready(`{"type":"data"}`, `{"type":"data","subPath":"db"}`), failure.Unready, "in the folder db of volume data"},
		"two mounts of a volume":     {unready(`{"mountPath":"/wal"}`, `{"mountPath":"/wal"},{"mountPath":"/b"}`), failure.Unready, "mounted at 2 paths"},
		"no path of a volume":        {unready(`{"mountPath":"/wal"}`, `{"type":"raft"}`), failure.Unready, "only TiDB Operator 2.x knows"},
		"no data":                    {unready(`{"type":"data"}`, `{"mountPath":"/x"}`), failure.Corrupt, "no volume of type data"},
		"a claim of no store":        {unready(`"pingcap.com/instance":"hot-bbbbbb"`, `"pingcap.com/instance":"b"`), failure.Corrupt, "not the claim of a TiKV"},
		"a group without a template": {one("cold", `"template"`, `"x"`), failure.Corrupt, "TiKVGroup cold has no template"},
		"no Cluster":                 {unready(`"kind":"Cluster"`, `"kind":"Other"`), failure.Corrupt, "not recorded"},
		"an unreadable claim":        {unready(`"kind":"PersistentVolumeClaim"`, `"kind":1`), failure.Corrupt, "a claim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ToTidbCluster(row.of())
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}
