package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
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
	for toleration, want := range map[string][]cluster.Zone{
		"other":                     {"us-west-2a", "us-west-2d"},
		"dedicated":                 {"us-west-2a", "us-west-2b", "us-west-2d"},
		"dedicated=tikv:NoSchedule": {"us-west-2a", "us-west-2b", "us-west-2d"},
		"dedicated=tidb":            {"us-west-2a", "us-west-2d"},
		"dedicated:NoExecute":       {"us-west-2a", "us-west-2d"},
	} {
		t.Run(toleration, func(t *testing.T) {
			t.Parallel()
			got, err := l.client.Zones(t.Context(), &workers.Spec{Tolerations: []string{toleration}})
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	got, err := l.client.Zones(t.Context(), &workers.Spec{NodeSelector: map[string]string{"kubernetes.io/hostname": "node-us-west-2d"}})
	require.NoError(t, err)
	require.Equal(t, []cluster.Zone{"us-west-2d"}, got)
}
