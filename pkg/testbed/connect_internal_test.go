package testbed

import (
	"net"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Pods of Operator 2.x are named after their groups, not after the cluster.
func TestConnectPod_OfOperator2_ReachesItsOwnPortsAlone(t *testing.T) {
	t.Parallel()
	bed, err := Start(t.Context(), Config{Dir: t.TempDir(), Nodes: 3, Scale: 50, Operator: 2})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: "prod"}, 1)
	require.NoError(t, err)
	port := func(address string) int {
		_, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	pd, err := url.Parse(c.PD.URLs()[0])
	require.NoError(t, err)
	ports := map[string]int{"pd": port(pd.Host), "tikv": port(c.Stores()[0].Addr())}
	for _, o := range bed.Objects.List("pods", "tidb") {
		component := o.GetLabels()["pingcap.com/component"]
		for of, port := range ports {
			conn, err := bed.connectPod(t.Context(), "tidb", o.GetName(), port)
			if of != component {
				require.ErrorContains(t, err, "connection refused", "%s of %s", of, o.GetName())
				continue
			}
			require.NoError(t, err, o.GetName())
			require.NoError(t, conn.Close())
		}
	}
}
