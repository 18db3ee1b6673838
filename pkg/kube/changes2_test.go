package kube_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
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

// A cluster of TiDB Operator 1.x is restored into 2.x, whose Operator adopts the stores as they are made.
func TestTarget2_OfACluster1_IsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := l.start(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 3, TiDB: 1, RaftLogVolume: true, StorageClass: "ebs-sc"})
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	read, err := l.client.Cluster(t.Context(), name)
	require.NoError(t, err)
	var claims []json.RawMessage
	pods := l.awaitReady(t, name, 3)
	for _, p := range pods {
		for _, m := range p.Mounts {
			claims = append(claims, m.Claim)
		}
	}
	made, err := operator2.Translate(read.Object, claims)
	require.NoError(t, err)
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": made.Objects})
	require.NoError(t, err)
	r := &core{lab: l, source: list, to: kube.Target{Name: source("dst"), Run: run}}
	for i, p := range pods {
		for j, m := range p.Mounts {
			id := cluster.VolumeID(fmt.Sprintf("vol-restored-%d-%d", i, j))
			l.disks.Add(id, p.Zone, true)
			r.volumes = append(r.volumes, kube.RestoredVolume{
				Cluster: r.to.Name, Run: run, Ordinal: p.Ordinal, Role: m.Role, MountPath: m.MountPath, Volume: id, Zone: p.Zone,
				SizeGiB: 100, Claim: made.Claims[i*len(p.Mounts)+j], Object: m.Object,
			})
		}
	}
	require.NoError(t, l.client.Allowed(t.Context(), "tidb", r.source))
	require.NoError(t, l.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
	r.create(t)
	for _, p := range r.start(t) {
		for _, m := range p.Mounts {
			require.Contains(t, string(m.Volume), "vol-restored-"+strconv.Itoa(p.Ordinal), "of its own store")
			require.Equal(t, m.Role, pods[p.Ordinal].Mounts[slices.IndexFunc(pods[p.Ordinal].Mounts, func(was kube.Mount) bool {
				return was.MountPath == m.MountPath
			})].Role)
		}
	}
	require.Empty(t, l.disks.Modified())
	require.NoError(t, l.client.DeleteCluster(t.Context(), r.to.Name, run, false))
}
