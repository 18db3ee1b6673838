package operator2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsPDOf_TheServiceOfItsGroupOrCluster(t *testing.T) {
	t.Parallel()
	pod := map[string]string{clusterLabel: "prod", groupLabel: "pd-a", componentLabel: "pd"}
	require.True(t, IsPDOf("pd-a-pd", pod))
	require.True(t, IsPDOf("prod-pd", pod))
	require.False(t, IsPDOf("pd-b-pd", pod))
	require.False(t, IsPDOf("hot-pd", map[string]string{groupLabel: "hot", componentLabel: "tikv"}))
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
