package operator1

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

const changeable = `{"metadata": {"name": "src", "namespace": "tidb", "labels": {"team": "a", "argocd.argoproj.io/instance": "src"}},
	"spec": {"version": "v8.5.0", "pd": {"replicas": 3}, "tidb": {"replicas": 2, "service": {"type": "NodePort", "mysqlNodePort": 30400}},
	"tikv": {"replicas": 3, "requests": {"storage": "100Gi"}, "storageVolumes": [{"name": "raft", "mountPath": "/var/lib/raft", "storageSize": "10Gi"}],
	"config": "[raft-engine]\ndir = \"/var/lib/raft\"\n[storage]\napi-version = 2\n"}}}`

func changedTarget(changes Changes) Target {
	return Target{Name: dst(), Run: "r1", Stores: 3, SizesGiB: map[string]int64{"/var/lib/tikv": 100, "/var/lib/raft": 10}, Changes: changes}
}

func patchOf(t *testing.T, text string) json.RawMessage {
	t.Helper()
	patch, err := ReadPatch([]byte(text), "p.yaml")
	require.NoError(t, err)
	return patch
}

func TestPatch_MergeAndJSONPatch_AreAppliedToTheCopy(t *testing.T) {
	t.Parallel()
	made, err := Make(json.RawMessage(changeable), changedTarget(Changes{Patches: []json.RawMessage{
		patchOf(t, "spec:\n  tidb:\n    replicas: 1\n    service: {mysqlNodePort: 31000}\n  tikv: {maxFailoverCount: 2}\n"),
		patchOf(t, `[{"op": "replace", "path": "/spec/pd/replicas", "value": 1}, {"op": "add", "path": "/metadata/labels/owner", "value": "me"}]`),
	}}))
	require.NoError(t, err)
	o := made.Object
	for want, path := range map[int64][]string{31000: {"spec", "tidb", "service", "mysqlNodePort"}, 0: {"spec", "tikv", "maxFailoverCount"}, 3: {"spec", "tikv", "replicas"}} {
		got, _, err := unstructured.NestedInt64(o.Object, path...)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	pd, _, _ := unstructured.NestedInt64(o.Object, "spec", "pd", "replicas")
	tidb, _, _ := unstructured.NestedInt64(o.Object, "spec", "tidb", "replicas")
	require.EqualValues(t, []int64{1, 0}, []int64{pd, tidb})
	require.Equal(t, "1", o.GetAnnotations()[tidbReplicasKey], "TiDB starts at the end")
	require.Equal(t, "me", o.GetLabels()["owner"])
	require.Equal(t, "2", o.GetAnnotations()[failoverKey], "it is put back at the end")
}

func TestPatch_ThatTheDataOrTheRestoreDoNotAllow_IsRefusedByItsField(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ patch, want string }{
		"version":       {`{"spec": {"version": "v7.1.0"}}`, `TiKV's version is "7.1.0", but the backup has "8.5.0"`},
		"tikv version":  {`{"spec": {"tikv": {"version": "v8.1.0"}}}`, `"8.1.0"`},
		"stores":        {`{"spec": {"tikv": {"replicas": 5}}}`, "the backup has 3 stores"},
		"volumes":       {`{"spec": {"tikv": {"storageVolumes": null}}}`, "spec.tikv.storageVolumes"},
		"size":          {`{"spec": {"tikv": {"requests": {"storage": "200Gi"}}}}`, "will have 100 GiB (--volume-size)"},
		"size of raft":  {`[{"op": "replace", "path": "/spec/tikv/storageVolumes/0/storageSize", "value": "1Gi"}]`, "the storageSize of /var/lib/raft"},
		"api version":   {`{"spec": {"tikv": {"config": "[raft-engine]\ndir = \"/var/lib/raft\"\n"}}}`, "storage.api-version"},
		"encryption":    {`{"spec": {"tikv": {"config": "[raft-engine]\ndir=\"/var/lib/raft\"\n[storage]\napi-version=2\n[security.encryption]\ndata-encryption-method=\"aes128-ctr\"\n"}}}`, "security.encryption.data-encryption-method"},
		"folder":        {`{"spec": {"tikv": {"dataSubDir": "x"}}}`, "spec.tikv.dataSubDir"},
		"config":        {`{"spec": {"tikv": {"config": "["}}}`, "read tikv configuration"},
		"name":          {`{"metadata": {"name": "other"}}`, "leave these to the restore"},
		"recovery mode": {`{"spec": {"recoveryMode": false}}`, "leave these to the restore"},
		"run":           {`{"metadata": {"annotations": null}}`, "leave these to the restore"},
		"spec":          {`{"spec": null}`, "leave these to the restore"},
		"other pd":      {`{"spec": {"pdAddresses": ["http://live-pd:2379"]}}`, "joins another cluster's PD"},
		"no such path":  {`[{"op": "replace", "path": "/spec/none/x", "value": 1}]`, "--print-manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Make(json.RawMessage(changeable), changedTarget(Changes{Patches: []json.RawMessage{patchOf(t, row.patch)}}))
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.Contains(t, err.Error()+failure.HintOf(err), row.want)
		})
	}
}

func TestManifest_OfTheUser_IsTakenAsItIs(t *testing.T) {
	t.Parallel()
	manifest, err := ReadManifest([]byte(`
apiVersion: v1
kind: ConfigMap
---
apiVersion: pingcap.com/v1alpha1
kind: TidbCluster
metadata:
  name: dst
  labels: {argocd.argoproj.io/instance: mine}
spec:
  version: v8.5.0
  recoveryMode: false
  paused: true
  tidb: {replicas: 1, service: {type: NodePort, mysqlNodePort: 32000}}
  tikv:
    storageVolumes: [{name: raft, mountPath: /var/lib/raft, storageSize: 10240Mi}]
    config: {raft-engine: {dir: /var/lib/raft}, storage: {api-version: 2}}
`), "mine.yaml")
	require.NoError(t, err)
	made, err := Make(json.RawMessage(changeable), changedTarget(Changes{Manifest: manifest}))
	require.NoError(t, err)
	require.Empty(t, made.Dropped)
	require.Equal(t, "mine", made.Object.GetLabels()["argocd.argoproj.io/instance"])
	spec := made.Object.Object["spec"].(map[string]any)
	require.Equal(t, true, spec["recoveryMode"])
	require.NotContains(t, spec, "paused")
	require.NotContains(t, spec, "pd", "the source's is not taken over")
	port, _, _ := unstructured.NestedInt64(spec, "tidb", "service", "mysqlNodePort")
	require.EqualValues(t, 32000, port)
	replicas, _, _ := unstructured.NestedInt64(spec, "tikv", "replicas")
	require.EqualValues(t, 3, replicas)
	storage, _, _ := unstructured.NestedString(spec, "tikv", "requests", "storage")
	require.Equal(t, "100Gi", storage)
}

func TestManifest_OfAnotherClusterOrShape_IsRefused(t *testing.T) {
	t.Parallel()
	const good = `{"kind": "TidbCluster", "metadata": {"name": "dst"}, "spec": {"version": "v8.5.0", "tikv": {"requests": {"storage": "100Gi"},
		"storageVolumes": [{"name": "raft", "mountPath": "/var/lib/raft"}], "config": {"raft-engine": {"dir": "/var/lib/raft"}, "storage": {"api-version": 2}}}}}`
	_, err := Make(json.RawMessage(changeable), changedTarget(Changes{Manifest: json.RawMessage(good)}))
	require.NoError(t, err)
	for name, row := range map[string]struct{ patch, want string }{
		"name":      {`{"metadata": {"name": "src"}}`, "--to and the manifest"},
		"namespace": {`{"metadata": {"namespace": "other"}}`, "--to and the manifest"},
		"slots":     {`{"metadata": {"annotations": {"tikv.tidb.pingcap.com/delete-slots": "[0]"}}}`, "ordinals"},
		"size":      {`{"spec": {"tikv": {"requests": {"storage": "1Ti"}}}}`, "--volume-size"},
		"replicas":  {`{"spec": {"tikv": {"replicas": 4}}}`, "3 stores"},
		"version":   {`{"spec": {"version": null}}`, "TiKV's version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, err := applyPatch([]byte(good), json.RawMessage(row.patch))
			require.NoError(t, err)
			_, err = Make(json.RawMessage(changeable), changedTarget(Changes{Manifest: bad}))
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.Contains(t, err.Error()+failure.HintOf(err), row.want)
		})
	}
}

func TestTargetManifest_ReadBack_MakesTheSameCluster(t *testing.T) {
	t.Parallel()
	to := changedTarget(Changes{Patches: []json.RawMessage{patchOf(t, "spec: {tidb: {replicas: 1}}")}})
	text, err := TargetManifest(json.RawMessage(changeable), to)
	require.NoError(t, err)
	require.NotContains(t, string(text), runmark.Key)
	first, err := Make(json.RawMessage(changeable), to)
	require.NoError(t, err)
	manifest, err := ReadManifest(text, "printed.yaml")
	require.NoError(t, err)
	second, err := Make(json.RawMessage(changeable), changedTarget(Changes{Manifest: manifest}))
	require.NoError(t, err)
	require.Equal(t, first.Object.Object, second.Object.Object)
}

func TestReadManifestAndPatch_OfWhatIsNone_AreUsage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"none": "kind: Pod\n", "two": "kind: TidbCluster\n---\nkind: TidbCluster\n", "no yaml": "\t{", "empty": "",
	} {
		t.Run("manifest "+name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadManifest([]byte(text), "f")
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
		})
	}
	for name, text := range map[string]string{"text": "hello", "empty": "", "no yaml": "\t{", "no operation": "[1]"} {
		t.Run("patch "+name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadPatch([]byte(text), "f")
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
		})
	}
}
