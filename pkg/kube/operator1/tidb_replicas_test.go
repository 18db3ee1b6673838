package operator1

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func TestTiDB_NoneDuringTheRestore_IsPutBackAsItWas(t *testing.T) {
	t.Parallel()
	target := Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"}
	tidb := func(t *testing.T, o *unstructured.Unstructured) any {
		t.Helper()
		n, there, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "tidb", "replicas")
		require.NoError(t, err)
		if !there {
			return nil
		}
		return n
	}
	for _, c := range []struct {
		name, source string
		patch        string
		during, then any
		kept         string
	}{
		{name: "two servers", source: `, "tidb": {"replicas": 2}`, during: int64(0), then: int64(2), kept: "2"},
		{name: "none", source: `, "tidb": {"replicas": 0}`, during: int64(0), then: int64(0)},
		{name: "no TiDB", source: ``},
		{name: "another number by a patch", source: `, "tidb": {"replicas": 2}`, patch: `{"spec":{"tidb":{"replicas":5}}}`, during: int64(0), then: int64(5), kept: "5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := target
			if c.patch != "" {
				to.Changes.Patches = append(to.Changes.Patches, json.RawMessage(c.patch))
			}
			made, err := Make(json.RawMessage(fmt.Sprintf(`{"spec": {"tikv": {"replicas": 3}%s}}`, c.source)), to)
			require.NoError(t, err)
			require.Equal(t, c.during, tidb(t, made.Object))
			require.Equal(t, c.kept, made.Object.GetAnnotations()[tidbReplicasKey])
			require.Equal(t, c.kept != "", StartTiDB(made.Object))
			require.Equal(t, c.then, tidb(t, made.Object))
			require.NotContains(t, made.Object.GetAnnotations(), tidbReplicasKey)
		})
	}
}

// A user who scales TiDB up while the restore runs keeps that number.
func TestTiDB_ScaledMeanwhile_IsLeft(t *testing.T) {
	t.Parallel()
	made, err := Make(json.RawMessage(`{"spec": {"tikv": {"replicas": 3}, "tidb": {"replicas": 2}}}`),
		Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(made.Object.Object, int64(3), "spec", "tidb", "replicas"))
	withTiDB(made.Object)
	n, _, err := unstructured.NestedInt64(made.Object.Object, "spec", "tidb", "replicas")
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
}

// A manifest that --print-manifest wrote is given back with --from-manifest.
func TestTiDB_PrintedManifest_HasItsNumber(t *testing.T) {
	t.Parallel()
	to := Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"}
	source := json.RawMessage(`{"spec": {"tikv": {"replicas": 3, "maxFailoverCount": 2}, "tidb": {"replicas": 2}}}`)
	printed, err := Make(source, to)
	require.NoError(t, err)
	to.Changes.Manifest, err = printed.Object.MarshalJSON()
	require.NoError(t, err)
	made, err := Make(source, to)
	require.NoError(t, err)
	require.Equal(t, "2", made.Object.GetAnnotations()[tidbReplicasKey])
	require.Equal(t, "2", made.Object.GetAnnotations()[failoverKey])
	n, _, err := unstructured.NestedInt64(made.Object.Object, "spec", "tidb", "replicas")
	require.NoError(t, err)
	require.Zero(t, n)
}
