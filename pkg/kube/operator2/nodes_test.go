package operator2

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// A store's pod has the node selector of its overlay and of its topology, which counts first; its zone is the volumes'.
func TestNodeRules_OverlayAndTopology(t *testing.T) {
	t.Parallel()
	for zone, topology := range map[cluster.Zone]map[string]any{
		"us-west-2b": {"topology.kubernetes.io/zone": "us-west-2b", "node": "big"},
		"":           {"node": "big"},
	} {
		to := target(100, 50)
		for i := range to.Stores {
			to.Stores[i].Ordinal, to.Stores[i].Zone = 7+i, zone
		}
		made, err := Make(recorded(t, `"version":"v8.5.2","volumes"`,
			`"version":"v8.5.2","overlay":{"pod":{"spec":{"nodeSelector":{"node":"small","disk":"ssd"},"tolerations":[{"key":"tikv"}]}}},"volumes"`), to)
		require.NoError(t, err)
		require.Equal(t, topology, at(t, made.Stores[0].TiKV, "spec.topology"))
		rules, err := made.NodeRules()
		require.NoError(t, err)
		require.Len(t, rules, 2)
		hot, cold := rules[7], rules[8]
		require.Equal(t, "nodeSelector disk=ssd,node=big, tolerations tikv", hot.String())
		require.Equal(t, "nodeSelector disk=ssd,node=small, tolerations tikv", cold.String())
	}
}
