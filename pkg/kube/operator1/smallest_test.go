package operator1

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// largest has whatever a smallest cluster leaves out.
const largest = `{"metadata": {"name": "src"}, "spec": {
	"tlsCluster": {"enabled": true}, "serviceAccount": "irsa", "pvReclaimPolicy": "Retain", "helper": {"image": "private/busybox"},
	"services": [{"name": "pd", "type": "LoadBalancer"}],
	"pd": {"replicas": 3, "serviceAccount": "irsa", "service": {"type": "LoadBalancer", "clusterIP": "10.1.1.1", "annotations": {"a": "b"}, "labels": {"a": "b"}}},
	"tikv": {"replicas": 3, "serviceAccount": "irsa"},
	"tidb": {"replicas": 2, "serviceAccount": "irsa", "tlsClient": {"enabled": true}, "binlogEnabled": true,
		"config": "[instance]\ntidb_enable_ddl = true\n[performance]\nmax-procs = 4\n",
		"service": {"type": "LoadBalancer", "mysqlNodePort": 30400, "annotations": {"external-dns.alpha.kubernetes.io/hostname": "db"}, "labels": {"a": "b"}}},
	"tiflash": {"replicas": 2}, "ticdc": {"replicas": 3}, "tiproxy": {"replicas": 2}, "pump": {"replicas": 1}}}`

func TestMake_Smallest_OnePDOneTiDBAndTheStores(t *testing.T) {
	t.Parallel()
	to := Target{Name: dst(), Run: "r1", Changes: Changes{Smallest: true}}
	made, err := Make(json.RawMessage(largest), to)
	require.NoError(t, err)
	withTiDB(made.Object) // as it is once the stores are up
	spec := made.Object.Object["spec"].(map[string]any)
	require.Equal(t, []string{"pd", "pvReclaimPolicy", "recoveryMode", "tidb", "tikv"}, slices.Sorted(maps.Keys(spec)))
	require.Equal(t, "Delete", spec["pvReclaimPolicy"])
	inside := map[string]any{"type": "ClusterIP"}
	require.Equal(t, map[string]any{"replicas": int64(1), "service": inside}, spec["pd"])
	tikv := spec["tikv"].(map[string]any)
	require.Equal(t, int64(3), tikv["replicas"])
	require.NotContains(t, tikv, "serviceAccount")
	tidb := spec["tidb"].(map[string]any)
	require.Equal(t, "[instance]\ntidb_enable_ddl = false\n\n[performance]\nmax-procs = 4\nrun-auto-analyze = false\n", tidb["config"])
	delete(tidb, "config")
	require.Equal(t, map[string]any{"replicas": int64(1), "service": inside}, tidb)
}
