package kube_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// limit puts a ResourceQuota there, of which so much is used.
func (l *lab) limit(t *testing.T, name string, spec, hard, used map[string]any) {
	t.Helper()
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": name, "namespace": "tidb"},
		"spec": spec, "status": map[string]any{"hard": hard, "used": used},
	}}))
}

// three volumes of three stores.
func three(t *testing.T) []kube.RestoredVolume {
	t.Helper()
	var out []kube.RestoredVolume
	for ordinal := range 3 {
		v := recordedVolume(t, source("dst"))
		v.Ordinal = ordinal
		out = append(out, v)
	}
	return out
}

// Each object alone fits: an API server that is asked for one at a time takes them all.
func TestDryRun_QuotaTooSmallForAllTogether_IsNamedWithWhatIsAskedAndLeft(t *testing.T) {
	t.Parallel()
	o := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), TiDB: 2})
	o = withField(o, map[string]any{"cpu": "2", "storage": "10Gi"}, "spec", "tikv", "requests")
	o = withField(o, map[string]any{"memory": "4Gi"}, "spec", "tikv", "limits")
	object, err := json.Marshal(o)
	require.NoError(t, err)
	for name, row := range map[string]struct{ hard, used, want string }{
		// 3 PVCs of TiKV and PD's; pods: discovery, PD, 3 TiKV, 2 TiDB.
		"claims":              {"persistentvolumeclaims=5", "persistentvolumeclaims=2", "needs 4 of persistentvolumeclaims, and 3 of 5 are left"},
		"claims by count":     {"count/persistentvolumeclaims=3", "", "needs 4 of count/persistentvolumeclaims, and 3 of 3 are left"},
		"storage":             {"requests.storage=40Gi", "requests.storage=10Gi", "needs 31Gi of requests.storage, and 30Gi of 40Gi are left"},
		"storage of a class":  {"ebs-sc.storageclass.storage.k8s.io/requests.storage=30Gi", "", "needs 31Gi of ebs-sc.storageclass.storage.k8s.io/requests.storage, and 30Gi"},
		"another class":       {"io2.storageclass.storage.k8s.io/requests.storage=1Gi", "", ""},
		"pods":                {"pods=8", "pods=2", "needs 7 of pods, and 6 of 8 are left"},
		"services":            {"services=5", "", "needs 6 of services"},
		"configmaps":          {"configmaps=2", "", "needs 3 of configmaps"},
		"statefulsets":        {"count/statefulsets.apps=2", "", "needs 3 of count/statefulsets.apps"},
		"clusters":            {"count/tidbclusters.pingcap.com=1", "count/tidbclusters.pingcap.com=1", "needs 1 of count/tidbclusters.pingcap.com, and 0 of 1 are left"},
		"cpu":                 {"cpu=5", "", "needs 6 of cpu, and 5 of 5"},
		"memory by the limit": {"requests.memory=11Gi", "", "needs 12Gi of requests.memory"},
		"limits":              {"limits.memory=11Gi", "", "needs 12Gi of limits.memory"},
		"over already":        {"pods=2", "pods=5", "needs 7 of pods, and -3 of 2 are left"},
		"just enough":         {"pods=7 persistentvolumeclaims=4 requests.storage=31Gi services=6 configmaps=3", "", ""},
		"something else":      {"secrets=0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.server.AddStorageClass("ebs-sc"))
			l.limit(t, "small", map[string]any{}, fields(row.hard), fields(row.used))
			l.limit(t, "of-others", map[string]any{"scopes": []any{"BestEffort"}}, fields("pods=1"), nil)
			err := l.client.DryRun(t.Context(), object, toDst(), three(t), false)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "ResourceQuota small: the restore "+row.want)
			require.NotContains(t, err.Error(), "of-others")
			require.Contains(t, fmt.Sprint(failure.HintOf(err)), "describe resourcequota small")
			require.Empty(t, l.server.MutatingCalls())
		})
	}
}

func fields(text string) map[string]any {
	out := map[string]any{}
	for _, pair := range strings.Fields(text) {
		at := strings.LastIndex(pair, "=")
		out[pair[:at]] = pair[at+1:]
	}
	return out
}

// What is there already is in the quota's usage.
func TestDryRun_QuotaOfWhatIsThere_IsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), toDst()))
	for _, v := range three(t)[:2] {
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	l.limit(t, "exact", map[string]any{}, fields("persistentvolumeclaims=3 pods=0"), fields("persistentvolumeclaims=2"))
	require.NoError(t, l.client.DryRun(t.Context(), sourceObject(t), toDst(), three(t), true))
	l.limit(t, "exact", map[string]any{}, fields("persistentvolumeclaims=2"), fields("persistentvolumeclaims=2"))
	err := l.client.DryRun(t.Context(), sourceObject(t), toDst(), three(t), true)
	require.ErrorContains(t, err, "needs 1 of persistentvolumeclaims, and 0 of 2 are left")
}
