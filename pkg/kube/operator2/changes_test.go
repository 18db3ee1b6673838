package operator2

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// printed is what the target's objects are without changes, as a user may have changed them: each change replaces a text.
func printed(t *testing.T, changes ...string) []json.RawMessage {
	t.Helper()
	made, err := Make(recorded(t), target(100, 50))
	require.NoError(t, err)
	var text []byte
	for _, o := range slices.Concat(made.Early, made.Late, []*unstructured.Unstructured{made.Cluster, made.Stores[0].TiKV}) {
		document, err := Document(o)
		require.NoError(t, err)
		text = append(append(text, "---\n"...), document...)
	}
	for i := 0; i < len(changes); i += 2 {
		require.Contains(t, string(text), changes[i])
		text = []byte(strings.ReplaceAll(string(text), changes[i], changes[i+1]))
	}
	list, err := ReadManifest(text, "printed.yaml")
	require.NoError(t, err)
	own, ok := Recorded(list)
	require.True(t, ok)
	return own
}

func TestMake_OwnManifest_AsPrinted_IsTheSame(t *testing.T) {
	t.Parallel()
	want, err := Make(recorded(t), target(100, 50))
	require.NoError(t, err)
	to := target(100, 50)
	to.Changes.Manifest = printed(t)
	got, err := Make(recorded(t), to)
	require.NoError(t, err)
	want.Dropped = nil // it was in the source's
	require.Equal(t, want, got)
}

func TestMake_OwnManifest_ItsSpecsAndGroupsCount(t *testing.T) {
	t.Parallel()
	to := target(100, 50)
	to.Changes.Manifest = append(printed(t, "storageClassName: fast", "storageClassName: slow", "name: copy-db", "name: mine"),
		json.RawMessage(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"TiProxyGroup","metadata":{"name":"proxy"},"spec":{"replicas":1}}`))
	made, err := Make(recorded(t), to)
	require.NoError(t, err)
	require.Equal(t, "slow", *made.Stores[0].Claims[0].Spec.StorageClassName)
	require.Equal(t, at(t, made.Early[1], "spec.template.spec.volumes"), at(t, made.Stores[0].TiKV, "spec.volumes"))
	var late []string
	for _, o := range made.Late {
		late = append(late, o.GetName())
		require.Equal(t, "copy", at(t, o, "spec.cluster.name"))
	}
	require.Equal(t, []string{"mine", "proxy"}, late)
	require.Equal(t, true, at(t, made.Cluster, "spec.paused"))
}

// An empty type is none: an Operator drops it.
func TestMountsOf_NoTypeIsTheEmptyOne(t *testing.T) {
	t.Parallel()
	of := func(mount map[string]any) string {
		return mountsOf(map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"name": "wal", "mounts": []any{mount}}}}}})
	}
	require.Equal(t, of(map[string]any{"mountPath": "/wal"}), of(map[string]any{"type": "", "mountPath": "/wal"}))
	require.NotEqual(t, of(map[string]any{"mountPath": "/wal"}), of(map[string]any{"type": "data", "mountPath": "/wal"}))
}

func TestMake_Patch_ChangesTheObjectThatItNames(t *testing.T) {
	t.Parallel()
	to := target(100, 50)
	to.Changes.Patches = []json.RawMessage{
		json.RawMessage(`{"kind":"TiKVGroup","metadata":{"name":"copy-hot"},"spec":{"template":{"spec":{"resources":{"cpu":"4"}}}}}`),
		json.RawMessage(`{"kind":"TiDBGroup","metadata":{"name":"copy-db"},"spec":{"replicas":1}}`),
	}
	made, err := Make(recorded(t), to)
	require.NoError(t, err)
	require.Equal(t, "4", at(t, made.Early[1], "spec.template.spec.resources.cpu"))
	require.Equal(t, "4", at(t, made.Stores[0].TiKV, "spec.resources.cpu"), "or the Operator would restart it")
	require.Nil(t, at(t, made.Stores[1].TiKV, "spec.resources"))
	require.Equal(t, int64(1), at(t, made.Late[0], "spec.replicas"))
}

func TestMake_ChangesThatDoNotFit_AreRefused(t *testing.T) {
	t.Parallel()
	hot := func(spec string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(`{"kind":"TiKVGroup","metadata":{"name":"copy-hot"},"spec":` + spec + `}`)}
	}
	for name, row := range map[string]struct {
		manifest, patches []json.RawMessage
		want              string
	}{
		"no Cluster":              {manifest: printed(t, "kind: Cluster", "kind: Other"), want: "no Cluster copy"},
		"no TiKVGroup":            {manifest: printed(t, "name: copy-hot\n", "name: other\n"), want: "no TiKVGroup copy-hot"},
		"another namespace":       {manifest: printed(t, "namespace: copies", "namespace: other"), want: "is in namespace other"},
		"an object twice":         {manifest: append(printed(t), printed(t)...), want: "it has two"},
		"more stores":             {patches: hot(`{"replicas":2}`), want: "spec.replicas is 2, but the restore needs 1"},
		"another version":         {patches: hot(`{"template":{"spec":{"version":"v8.1.0"}}}`), want: "version is 8.1.0"},
		"another mount":           {patches: hot(`{"template":{"spec":{"volumes":[{"name":"data","storage":"5Gi","mounts":[{"type":"data"}]}]}}}`), want: "volumes is data data"},
		"another size":            {manifest: printed(t, "storage: 100Gi", "storage: 200Gi"), want: "but the restored one will have 100 GiB"},
		"a patch of no object":    {patches: []json.RawMessage{json.RawMessage(`{"kind":"TiKVGroup","metadata":{"name":"hot"}}`)}, want: "the target has no TiKVGroup hot"},
		"a patch that names none": {patches: []json.RawMessage{json.RawMessage(`{"spec":{}}`)}, want: "names its object"},
		"a list of operations":    {patches: []json.RawMessage{json.RawMessage(`[]`)}, want: "names its object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target(100, 50)
			to.Changes = Changes{Manifest: row.manifest, Patches: row.patches}
			_, err := Make(recorded(t), to)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}
