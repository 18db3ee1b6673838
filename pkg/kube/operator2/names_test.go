package operator2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsBehind_TheServiceOfItsGroupOrCluster(t *testing.T) {
	t.Parallel()
	pod := map[string]string{clusterLabel: "prod", groupLabel: "pd-a", componentLabel: "pd"}
	require.True(t, IsBehind("pd-a-pd", pod))
	require.True(t, IsBehind("prod-pd", pod))
	require.False(t, IsBehind("pd-b-pd", pod))
	require.False(t, IsBehind("hot-pd", map[string]string{groupLabel: "hot", componentLabel: "tikv"}))
	sql := map[string]string{clusterLabel: "prod", groupLabel: "db", componentLabel: "tidb"}
	require.True(t, IsBehind("db-tidb", sql))
	require.False(t, IsBehind("prod-tidb", sql))
	require.False(t, IsBehind("db-pd", sql))
}

func TestBelongsTo_ByTheSpecAlone(t *testing.T) {
	t.Parallel()
	of := object(t, group("TiKVGroup", "hot", 1))
	require.True(t, BelongsTo("prod", &of))
	require.False(t, BelongsTo("hot", &of))
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "my-group-tikv-x7k2p9", podName("my-group-x7k2p9"))
	require.True(t, IsHeadless("hot-tikv-peer"))
	require.False(t, IsHeadless("prod-pd"))
	require.True(t, IsPod(podName("my-group-x7k2p9")))
	require.False(t, IsPod("my-group-x7k2p9"))
	require.False(t, IsPod("hot-tidb-x7k2p9"))
	require.Equal(t, "core.pingcap.com/v1alpha1, Resource=tikvs", Resource(TiKVs).String())
}
