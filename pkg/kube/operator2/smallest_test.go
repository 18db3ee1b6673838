package operator2

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// large is the cluster of recorded with whatever a smallest one leaves out.
func large(t *testing.T) []json.RawMessage {
	t.Helper()
	group := func(kind, name, rest string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":` + rest + `}`)
	}
	var out []json.RawMessage
	for _, raw := range recorded(t) {
		var o unstructured.Unstructured
		require.NoError(t, o.UnmarshalJSON(raw))
		put := func(value any, path ...string) {
			require.NoError(t, unstructured.SetNestedField(o.Object, value, path...))
		}
		switch o.GetKind() {
		case clusterKind:
			put("tokens", "spec", "security", "sessionTokenSigningCertKeyPair", "name")
			put([]any{map[string]any{"name": sessionTokens}, map[string]any{"name": "UsePDReadyAPI"}}, "spec", "featureGates")
		case tidbGroupKind:
			put(int64(2), "spec", "replicas")
			put([]any{"UsePDReadyAPI", sessionTokens}, "spec", "features")
			for field, value := range map[string]any{
				"mode": "StandBy", "config": "[performance]\nmax-procs = 4\n", "security": map[string]any{"authToken": map[string]any{}},
				"server": map[string]any{"ports": map[string]any{"client": map[string]any{"port": int64(3306)}}},
			} {
				put(value, "spec", "template", "spec", field)
			}
			put("irsa", "spec", "template", "spec", "overlay", "pod", "spec", "serviceAccountName")
			put("spot", "spec", "template", "spec", "overlay", "pod", "spec", "priorityClassName")
		case pdGroupKind:
			put(int64(3), "spec", "replicas")
		}
		changed, err := o.MarshalJSON()
		require.NoError(t, err)
		out = append(out, changed)
	}
	return append(out,
		group(tidbGroupKind, "reports", `{"replicas":1}`), group(pdGroupKind, "more", `{"replicas":1}`),
		group("TiFlashGroup", "flash", `{}`), group("TiCDCGroup", "cdc", `{}`), group("TiProxyGroup", "proxy", `{}`))
}

func TestMake_Smallest_OnePDOneTiDBAndTheStores(t *testing.T) {
	t.Parallel()
	to := target(100, 50)
	to.Changes.Smallest = true
	made, err := Make(large(t), to)
	require.NoError(t, err)
	require.Nil(t, at(t, made.Cluster, "spec.tlsCluster"), "its secrets are in the source's namespace")
	require.Nil(t, at(t, made.Cluster, "spec.security"))
	require.Equal(t, []any{map[string]any{"name": "UsePDReadyAPI"}}, at(t, made.Cluster, "spec.featureGates"))
	require.Len(t, made.Early, 3)
	require.Equal(t, "copy-pd", made.Early[0].GetName())
	require.Equal(t, int64(1), at(t, made.Early[0], "spec.replicas"))
	require.Len(t, made.Stores, 2)
	require.Len(t, made.Late, 1)
	sql := made.Late[0]
	require.Equal(t, "copy-db", sql.GetName())
	require.Equal(t, int64(1), at(t, sql, "spec.replicas"))
	require.Equal(t, []any{"UsePDReadyAPI"}, at(t, sql, "spec.features"))
	for _, field := range []string{"security", "server", "mode", "overlay.pod.spec.serviceAccountName"} {
		require.Nil(t, at(t, sql, "spec.template.spec."+field), field)
	}
	require.Equal(t, "spot", at(t, sql, "spec.template.spec.overlay.pod.spec.priorityClassName"))
	require.Equal(t, "[instance]\ntidb_enable_ddl = false\n\n[performance]\nmax-procs = 4\nrun-auto-analyze = false\n",
		at(t, sql, "spec.template.spec.config"))
}

func TestMake_Smallest_PatchesAreOfWhatIsThere(t *testing.T) {
	t.Parallel()
	patch := func(kind, name string) Target {
		to := target(100, 50)
		to.Changes = Changes{Smallest: true, Patches: []json.RawMessage{
			json.RawMessage(`{"kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":{"replicas":2}}`),
		}}
		return to
	}
	made, err := Make(large(t), patch(tidbGroupKind, "copy-db"))
	require.NoError(t, err)
	require.Equal(t, int64(2), at(t, made.Late[0], "spec.replicas"), "after it")
	_, err = Make(large(t), patch("TiProxyGroup", "copy-proxy"))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the target has no TiProxyGroup copy-proxy")
}

func TestMake_Smallest_Refused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*unstructured.Unstructured) // of the TiDBGroup
		kind   failure.Kind
		want   string
	}{
		"no TiDB": {func(o *unstructured.Unstructured) { o.SetKind("TiProxyGroup") }, failure.Usage, "no TiDB"},
		"unreadable configuration": {func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "[", "spec", "template", "spec", "config")
		}, failure.Corrupt, "TiDB's configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target(100, 50)
			to.Changes.Smallest = true
			source := recorded(t)
			for i, raw := range source {
				var o unstructured.Unstructured
				require.NoError(t, o.UnmarshalJSON(raw))
				if o.GetKind() == tidbGroupKind {
					row.change(&o)
				}
				changed, err := o.MarshalJSON()
				require.NoError(t, err)
				source[i] = changed
			}
			_, err := Make(source, to)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}
