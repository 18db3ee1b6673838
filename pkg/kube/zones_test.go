package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// A zone counts only if one of its nodes takes the pods: others would wait there for ever.
func TestZones_OfNodesThatTakeThePods(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	for zone, taint := range map[cluster.Zone]map[string]any{
		"us-west-2a": nil,
		"us-west-2b": {"key": "dedicated", "value": "tikv", "effect": "NoSchedule"},
		"us-west-2c": {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
		"us-west-2d": {"key": "busy", "effect": "PreferNoSchedule"},
	} {
		require.NoError(t, l.server.AddNode("node-"+string(zone), "i-1", zone))
		node := l.server.Get("nodes", "", "node-"+string(zone))
		taints := []any{}
		if taint != nil {
			taints = append(taints, taint)
		}
		require.NoError(t, unstructured.SetNestedSlice(node.Object, taints, "spec", "taints"))
		require.NoError(t, l.server.Put(node))
	}
	of := func(pods ...workers.Spec) []podnodes.Rules {
		var all []podnodes.Rules
		for i := range pods {
			all = append(all, pods[i].Rules())
		}
		return all
	}
	for toleration, want := range map[string][]cluster.Zone{
		"other":                     {"us-west-2a", "us-west-2d"},
		"dedicated":                 {"us-west-2a", "us-west-2b", "us-west-2d"},
		"dedicated=tikv:NoSchedule": {"us-west-2a", "us-west-2b", "us-west-2d"},
		"dedicated=tidb":            {"us-west-2a", "us-west-2d"},
		"dedicated:NoExecute":       {"us-west-2a", "us-west-2d"},
	} {
		t.Run(toleration, func(t *testing.T) {
			t.Parallel()
			got, err := l.client.Zones(t.Context(), of(workers.Spec{Tolerations: []string{toleration}})...)
			require.NoError(t, err)
			require.Equal(t, [][]cluster.Zone{want}, got)
		})
	}
	got, err := l.client.Zones(t.Context(), of(
		workers.Spec{NodeSelector: map[string]string{"kubernetes.io/hostname": "node-us-west-2d"}}, workers.Spec{},
		workers.Spec{NodeSelector: map[string]string{"kubernetes.io/hostname": "none"}},
	)...)
	require.NoError(t, err)
	require.Equal(t, [][]cluster.Zone{{"us-west-2d"}, {"us-west-2a", "us-west-2d"}, nil}, got)
}

// What TiKV asks of its nodes is in the object that the target is made from, or in that which is there.
func TestNodeRules_OfTheTargetsObject(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	to := kube.Target{Name: source("dst"), Run: run}
	volumes := make([]kube.RestoredVolume, 2)
	from := json.RawMessage(`{"spec":{"nodeSelector":{"pool":"all","disk":"hdd"},"tolerations":[{"key":"all"}],
		"affinity":{"nodeAffinity":{}},"tikv":{"replicas":2,"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"tikv"}],"affinity":{}}}}`)
	got, err := l.client.NodeRules(t.Context(), from, to, volumes, false)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, podnodes.Rules{
		NodeSelector: map[string]string{"pool": "all", "disk": "ssd"}, Tolerations: []corev1.Toleration{{Key: "tikv"}},
		Affinity: &corev1.Affinity{},
	}, got[1])

	own := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: to.Name, RecoveryMode: true})
	require.NoError(t, unstructured.SetNestedSlice(own.Object, []any{map[string]any{"key": "all"}}, "spec", "tolerations"))
	require.NoError(t, l.server.Put(own))
	got, err = l.client.NodeRules(t.Context(), from, to, volumes, true)
	require.NoError(t, err)
	require.Equal(t, "tolerations all", got[0].String())
}

// Groups of TiDB Operator 2.x differ in it, and the user's patches count.
func TestNodeRules_OfOperator2_OfEachGroup(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	groups := r.server.List("tikvgroups", "tidb")
	require.Len(t, groups, 2)
	r.to.Changes.Patches = []json.RawMessage{json.RawMessage(`{"kind":"TiKVGroup","metadata":{"name":"` +
		strings.Replace(groups[1].GetName(), "src", "dst", 1) +
		`"},"spec":{"template":{"spec":{"overlay":{"pod":{"spec":{"nodeSelector":{"disk":"ssd"}}}}}}}}`)}
	got, err := r.client.NodeRules(t.Context(), r.source, r.to, r.volumes, false)
	require.NoError(t, err)
	require.Len(t, got, len(r.volumes))
	for i, v := range r.volumes {
		want := "no tolerations"
		if strings.Contains(string(v.Claim), `"pingcap.com/group":"`+groups[1].GetName()+`"`) {
			want = "nodeSelector disk=ssd, no tolerations"
		}
		require.Equal(t, want, got[i].String(), string(v.Claim))
	}
}
