package kube_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// What --print-manifest prints makes, by --from-manifest, the same cluster, which can be patched, too.
func TestTarget2_PrintedManifest_IsRestoredInto(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.backUpCore(t)
	text, err := kube.TargetManifest(r.source, r.to, r.volumes)
	require.NoError(t, err)
	r.to.Changes.Manifest, err = kube.ReadManifest(text, "printed.yaml")
	require.NoError(t, err)
	again, err := kube.TargetManifest(r.source, r.to, r.volumes)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	r.to.Changes.Patches = []json.RawMessage{[]byte(`{"kind":"Cluster","metadata":{"name":"dst"},"spec":{"upgradePolicy":"NoConstraints"}}`)}
	_, err = kube.CheckRestored(r.source, r.to, r.volumes)
	require.NoError(t, err)
	require.NoError(t, l.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
	r.create(t)
	r.start(t)
}

func TestTarget2_ChangesOfAnotherKind_AreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.backUpCore(t)
	var group string
	for _, o := range l.server.List("tikvgroups", "tidb") {
		group = o.GetName()
	}
	group = "dst" + group[len("src"):]
	list := json.RawMessage(`{"kind":"List","items":[{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster","metadata":{"name":"dst"}}]}`)
	tc := json.RawMessage(`{"kind":"TidbCluster","metadata":{"name":"dst"},"spec":{}}`)
	engine := []json.RawMessage{[]byte(`{"kind":"TiKVGroup","metadata":{"name":"` + group + `"},"spec":{"template":{"spec":{"config":"[storage]\napi-version=2\n"}}}}`)}
	for name, row := range map[string]struct {
		source  json.RawMessage
		changes operator1.Changes
		want    string
	}{
		"a TidbCluster for 2.x":             {r.source, operator1.Changes{Manifest: tc}, "the manifest has a TidbCluster"},
		"a Cluster for 1.x":                 {tc, operator1.Changes{Manifest: list}, "it has objects of TiDB Operator 2.x"},
		"a configuration of another format": {r.source, operator1.Changes{Patches: engine}, "could not open the data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := r.to
			to.Changes = row.changes
			_, err := kube.CheckRestored(row.source, to, r.volumes)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestReadManifest_OfBothKinds_IsUsage(t *testing.T) {
	t.Parallel()
	_, err := kube.ReadManifest([]byte("kind: TidbCluster\n---\napiVersion: core.pingcap.com/v1alpha1\nkind: Cluster\n"), "f")
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	_, err = kube.ReadManifest([]byte("kind: Pod\n"), "f")
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}
