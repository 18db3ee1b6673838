package operator2

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

const topology = `"topology.kubernetes.io/zone":"us-west-2a","node":"big"`

// recorded is the cluster of steady, as a manifest has it, with templates that have volumes.
func recorded(t *testing.T, changes ...string) []json.RawMessage {
	t.Helper()
	const volumes = `"template":{"metadata":{"labels":{"team":"a"}},"spec":{"version":"v8.5.2","volumes":[
		{"name":"data","mounts":[{"type":"data"}],"storage":"5Gi","storageClassName":"fast"},
		{"name":"wal","mounts":[{"mountPath":"/wal"}],"storage":"5Gi"}]}}`
	c, err := Read(prod(), steady(t, append([]string{
		`"spec":{}`, `"spec":{"bootstrapSQL":{"name":"init"},"tlsCluster":{"enabled":true}}`,
		`"template":{"spec":{"version":"v8.5.2"}}`, volumes,
		`"spec":{"config":"# of hot"`, `"spec":{"topology":{` + topology + `},"config":"# of hot"`,
	}, changes...)...))
	require.NoError(t, err)
	return c.Recorded
}

func target(sizes ...int64) Target {
	to := Target{Name: cluster.Name{Namespace: "copies", Name: "copy"}, Run: "20261127t000000-00000001"}
	for i, group := range []string{"hot", "cold"} {
		to.Stores = append(to.Stores, TargetStore{
			Pod: group + "-tikv-x7k2p9", Zone: "us-west-2b",
			Volumes: map[string]TargetVolume{"data": {"pv-" + group, sizes[i]}, "wal": {"wal-" + group, 20}},
		})
	}
	return to
}

func at(t *testing.T, o *unstructured.Unstructured, path string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldCopy(o.Object, strings.Split(path, ".")...)
	require.NoError(t, err)
	return value
}

func TestMake_ObjectsOfTheTarget(t *testing.T) {
	t.Parallel()
	made, err := Make(recorded(t), target(100, 50))
	require.NoError(t, err)
	require.Equal(t, true, at(t, made.Cluster, "spec.paused"), "from its first version on")
	require.Equal(t, true, at(t, made.Cluster, "spec.tlsCluster.enabled"))
	require.Nil(t, at(t, made.Cluster, "spec.bootstrapSQL"))
	require.Equal(t, []string{"spec.bootstrapSQL"}, made.Dropped)
	require.Equal(t, "copies/copy", made.Cluster.GetNamespace()+"/"+made.Cluster.GetName())

	var early, late []string
	for _, o := range made.Early {
		early = append(early, o.GetKind()+" "+o.GetName())
		require.Equal(t, "copy", at(t, o, "spec.cluster.name"))
	}
	for _, o := range made.Late {
		late = append(late, o.GetKind()+" "+o.GetName())
	}
	require.Equal(t, []string{"PDGroup copy-pd", "TiKVGroup copy-hot", "TiKVGroup copy-cold"}, early)
	require.Equal(t, []string{"TiDBGroup copy-db"}, late)
	require.Equal(t, int64(1), at(t, made.Early[1], "spec.replicas"))

	require.Len(t, made.Stores, 2)
	hot := made.Stores[0]
	require.Equal(t, "copy-hot", hot.Group)
	require.Equal(t, "copy-hot-x7k2p9", hot.TiKV.GetName())
	require.Equal(t, "copy-hot-tikv-peer", at(t, hot.TiKV, "spec.subdomain"))
	require.Equal(t, false, at(t, hot.TiKV, "spec.offline"))
	require.Equal(t, map[string]any{"topology.kubernetes.io/zone": "us-west-2b", "node": "big"}, at(t, hot.TiKV, "spec.topology"))
	require.Nil(t, at(t, made.Stores[1].TiKV, "spec.topology"))
	require.Equal(t, []string{"pingcap.com/finalizer"}, hot.TiKV.GetFinalizers())
	require.Subset(t, hot.TiKV.GetLabels(), map[string]string{
		"pingcap.com/managed-by": "tidb-operator", "pingcap.com/component": "tikv", "pingcap.com/cluster": "copy",
		"pingcap.com/group": "copy-hot", "team": "a",
	})
	require.Len(t, hot.Claims, 2)
	data := hot.Claims[0]
	require.Equal(t, "data-copy-hot-tikv-x7k2p9", data.Name)
	require.Equal(t, "pv-hot", data.Spec.VolumeName)
	require.Equal(t, "fast", *data.Spec.StorageClassName)
	require.Nil(t, hot.Claims[1].Spec.StorageClassName)
	require.Equal(t, "copy-hot-x7k2p9", data.Labels["pingcap.com/instance"])
	require.Equal(t, "data", data.Labels["pingcap.com/volume-name"])
	for i, want := range []string{"100Gi", "50Gi"} {
		group := at(t, made.Early[1+i], "spec.template.spec.volumes").([]any)
		require.Equal(t, want, group[0].(map[string]any)["storage"], "or the Operator modifies the volume")
		require.Equal(t, at(t, made.Early[1+i], "spec.template.spec.volumes"), at(t, made.Stores[i].TiKV, "spec.volumes"))
		require.Equal(t, want, made.Stores[i].Claims[0].Spec.Resources.Requests.Storage().String())
	}
	for _, o := range append(made.Early, made.Cluster, hot.TiKV) {
		require.True(t, runmark.MadeBy(o, "20261127t000000-00000001"), o.GetName())
		require.NotEmpty(t, o.GetLabels()[runmark.Key])
	}
	require.True(t, runmark.MadeBy(data, "20261127t000000-00000001"))
}

// Only with the feature gate do claims of the Operator name a class of volume attributes.
func TestMake_VolumeAttributesClass_NeedsItsFeatureGate(t *testing.T) {
	t.Parallel()
	class := []string{`"storageClassName":"fast"`, `"storageClassName":"fast","volumeAttributesClassName":"silver"`}
	made, err := Make(recorded(t, class...), target(1, 1))
	require.NoError(t, err)
	require.Nil(t, made.Stores[0].Claims[0].Spec.VolumeAttributesClassName)
	gate := []string{`"bootstrapSQL":{"name":"init"}`, `"featureGates":[{"name":"VolumeAttributesClass"}]`}
	made, err = Make(recorded(t, append(gate, class...)...), target(1, 1))
	require.NoError(t, err)
	require.Equal(t, "silver", *made.Stores[0].Claims[0].Spec.VolumeAttributesClassName)
	require.Nil(t, made.Stores[0].Claims[1].Spec.VolumeAttributesClassName)
}

// With the feature gate ClusterSubdomain all pods have the subdomain of the Cluster, which an instance keeps for ever.
func TestMake_SubdomainOfTheCluster_IsTheTargets(t *testing.T) {
	t.Parallel()
	made, err := Make(recorded(t, `"config":"# of hot"`, `"subdomain":"prod-cluster","config":"# of hot"`), target(1, 1))
	require.NoError(t, err)
	require.Equal(t, "copy-cluster", at(t, made.Stores[0].TiKV, "spec.subdomain"))
	require.Equal(t, "copy-cold-tikv-peer", at(t, made.Stores[1].TiKV, "spec.subdomain"))
}

func TestMake_GroupsNamedAfterTheSource_AreNamedAfterTheTarget(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"prod-kv": "copy-kv", "prod": "copy", "production": "copy-production", "kv": "copy-kv"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target(1, 1)
			to.Stores[0].Pod = name + "-tikv-x7k2p9"
			made, err := Make(recorded(t, `"hot`, `"`+name, `of hot`, "of "+name), to)
			require.NoError(t, err)
			require.Equal(t, want, made.Early[1].GetName())
			require.Equal(t, want+"-x7k2p9", made.Stores[0].TiKV.GetName())
		})
	}
}

func TestMake_Impossible_IsRefused(t *testing.T) {
	t.Parallel()
	second := func(to *Target) { to.Stores[1].Pod = "hot-tikv-x7k2p9" }
	for name, row := range map[string]struct {
		change func(*Target)
		source []string
		kind   failure.Kind
		want   string
	}{
		"a name too long for a Cluster": {
			change: func(to *Target) { to.Name.Name = strings.Repeat("n", 38) }, kind: failure.Usage, want: "at most 37",
		},
		"a name too long for a group": {
			change: func(to *Target) { to.Name.Name = strings.Repeat("n", 37) }, kind: failure.Usage, want: "at most 40",
		},
		"two groups of one name": {source: []string{`"cold`, `"prod-hot`}, kind: failure.Usage, want: "two TiKVGroups would have the name copy-hot"},
		"a store of no recorded instance": {
			change: func(to *Target) { to.Stores[0].Pod = "other-tikv-x7k2p9" }, kind: failure.Corrupt, want: "1 of its 2 stores",
		},
		"two stores of one instance": {change: second, kind: failure.Corrupt, want: "1 of its 2 stores"},
		"a volume that is not in the backup": {
			change: func(to *Target) { delete(to.Stores[0].Volumes, "wal") }, kind: failure.Corrupt, want: "no volume wal",
		},
		"a volume that is not in the template": {
			change: func(to *Target) { to.Stores[0].Volumes["more"] = TargetVolume{"pv", 1} }, kind: failure.Corrupt, want: "have 2 volumes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target(1, 1)
			if row.change != nil {
				row.change(&to)
			}
			_, err := Make(recorded(t, row.source...), to)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestMake_SizesOfOneGroupDiffer_IsRefused(t *testing.T) {
	t.Parallel()
	all := recorded(t)
	another := strings.ReplaceAll(string(all[len(all)-2]), "hot-x7k2p9", "hot-aaaaaa")
	to := target(10, 20)
	to.Stores[1].Pod = "hot-tikv-aaaaaa"
	_, err := Make(append(all, json.RawMessage(another)), to)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "would have 10Gi and, of pod hot-tikv-aaaaaa, 20Gi")
	to.Stores[1].Volumes["data"] = TargetVolume{"pv-2", 10}
	made, err := Make(append(all, json.RawMessage(another)), to)
	require.NoError(t, err)
	require.Equal(t, int64(2), at(t, made.Early[1], "spec.replicas"))
	require.Equal(t, int64(0), at(t, made.Early[2], "spec.replicas"), "a group without stores in the backup")
}

func TestMake_UnreadableOrEmpty_IsCorrupt(t *testing.T) {
	t.Parallel()
	for _, all := range [][]json.RawMessage{nil, {[]byte("{")}, {recorded(t)[0]}} {
		_, err := Make(all, target(1, 1))
		require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	}
}
