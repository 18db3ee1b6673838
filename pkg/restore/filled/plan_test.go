package filled_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// ssd is what a TiKV pod asks of its node.
func ssd() podnodes.Rules { return podnodes.Rules{NodeSelector: map[string]string{"disk": "ssd"}} }

// Stores are put where a node takes their TiKV, or the restore is refused before anything is filled.
func TestChoose_ZonesThatTakeTiKV(t *testing.T) {
	t.Parallel()
	type zones = []cluster.Zone
	for name, c := range map[string]struct {
		chosen filled.Zones
		nodes  zones
		tikv   [2]zones
		want   zones
		refuse string
	}{
		"their own":             {filled.Zones{}, zones{"a", "b", "c"}, [2]zones{{"a", "b"}, {"a", "b"}}, zones{"a", "b"}, ""},
		"not all of their own":  {filled.Zones{}, zones{"a", "b", "c"}, [2]zones{{"b", "c"}, {"b", "c"}}, zones{"b", "c"}, ""},
		"one of each":           {filled.Zones{}, zones{"a", "b"}, [2]zones{{"a"}, {"b"}}, zones{"a", "b"}, ""},
		"only in one":           {filled.Zones{}, zones{"a", "b"}, [2]zones{{"b"}, {"b"}}, zones{"b", "b"}, ""},
		"none":                  {filled.Zones{}, zones{"a", "b"}, [2]zones{}, nil, "store 1: its volumes would be made in a, where no node takes its TiKV pod (nodeSelector disk=ssd, no tolerations): no node of this Kubernetes cluster does"},
		"where no volumes are":  {filled.Zones{}, zones{"a", "b"}, [2]zones{{"c"}, {"c"}}, nil, "those that do are in [c]"},
		"one has none":          {filled.Zones{}, zones{"a", "b"}, [2]zones{{"a", "b"}, {"a"}}, nil, "store 2: its volumes would be made in b"},
		"chosen":                {filled.Zones{All: "b"}, zones{"a", "b"}, [2]zones{{"b"}, {"b"}}, zones{"b", "b"}, ""},
		"chosen, without":       {filled.Zones{All: "a"}, zones{"a", "b"}, [2]zones{{"b"}, {"b"}}, nil, "made in a, where"},
		"nodes without zones":   {filled.Zones{}, nil, [2]zones{}, zones{"", ""}, ""},
		"an autoscaler's nodes": {filled.Zones{}, nil, [2]zones{{"b"}, {"b"}}, zones{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := filled.Choose(stores("a", "b"), c.chosen, c.nodes, []podnodes.Rules{ssd(), ssd()}, c.tikv[:])
			if c.refuse != "" {
				require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, c.refuse)
				require.Contains(t, failure.HintOf(err), "--patch")
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[cluster.StoreID]cluster.Zone{1: c.want[0], 2: c.want[1]}, got)
		})
	}
}

// nodes are those of a Kubernetes cluster: the zones of those that take each pod.
type nodes [][]cluster.Zone

func (n nodes) Zones(context.Context, ...podnodes.Rules) ([][]cluster.Zone, error) { return n, nil }

func (nodes) AllowedToFill(context.Context, string) error { return nil }

// lab is an API server with a StorageClass, and a backup of two stores whose volumes are of it.
type lab struct {
	server *kubetest.Server
	way    filled.Way
	backup *manifest.Manifest
}

func newLab(t *testing.T, class string) *lab {
	t.Helper()
	l := &lab{server: kubetest.New(kubetest.Config{Namespace: "tidb"}), backup: &manifest.Manifest{ID: "b"}}
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	require.NoError(t, l.server.AddStorageClassOf("disks", "csi.example.com"))
	core, err := l.server.Client(http.DefaultTransport)
	require.NoError(t, err)
	l.way = filled.Way{Kube: nodes{{"a", "b"}, {"a", "b"}, {"a", "b"}}, Claims: blockvolume.New(core)}
	for id := range cluster.StoreID(2) {
		v := cluster.Volume{
			ID: "vol-1", Role: cluster.RoleData, PVC: fmt.Sprintf("claim-%d", id), PV: fmt.Sprintf("pv-%d", id),
			VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 1, IOPS: 3000, ThroughputMiB: 125},
		}
		l.backup.Source.Stores = append(l.backup.Source.Stores, cluster.Store{ID: id + 1, Ordinal: int(id), Volumes: []cluster.Volume{v}})
		l.backup.Snapshots = append(l.backup.Snapshots, manifest.NewSnapshot(cluster.SnapshotID(fmt.Sprintf("snap-%d", id)), id+1, v, time.Now()))
		l.backup.Kubernetes.PVCs = append(l.backup.Kubernetes.PVCs, json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s}}`, v.PVC, class)))
		l.backup.Kubernetes.PVs = append(l.backup.Kubernetes.PVs, json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q}}`, v.PV)))
	}
	return l
}

// plan plans the volumes in another process of the run.
func (l *lab) plan(t *testing.T, earlier *journal.FillVolumes, done bool) (*filled.Maker, volumes.Plan, error) {
	t.Helper()
	m := filled.NewMaker(&l.way, &fromarchive.Source{ID: "a-1", Archive: &format.Archive{}},
		volumes.Owner{Run: "r", Target: cluster.Name{Namespace: "tidb", Name: "copy"}}, &phase.Remains{})
	m.Continue(earlier, done)
	plan, err := m.Plan(t.Context(), l.backup, filled.Zones{}, func(volumes.Plan) ([]podnodes.Rules, error) {
		return []podnodes.Rules{ssd(), ssd()}, nil
	})
	return m, plan, err
}

const ofDisks = `"storageClassName":"disks"`

// A run whose process died continues only with the class that it began with, unless all volumes are filled: others would be
// of another kind. What makes no difference to them may change.
func TestPlan_ClassWasReplaced(t *testing.T) {
	t.Parallel()
	set := func(field string, value any) func(*unstructured.Unstructured) {
		return func(class *unstructured.Unstructured) { class.Object[field] = value }
	}
	for name, c := range map[string]struct {
		change func(class *unstructured.Unstructured)
		refuse string
	}{
		"another provisioner": {set("provisioner", "csi.other.com"), "its provisioner is csi.other.com, and was csi.example.com"},
		"other parameters":    {set("parameters", map[string]any{"encrypted": "false"}), "its parameters"},
		"another binding":     {set("volumeBindingMode", "Immediate"), "its volumeBindingMode"},
		"other topologies": {set("allowedTopologies", []any{map[string]any{"matchLabelExpressions": []any{
			map[string]any{"key": "topology.csi.example.com/zone", "values": []any{"a"}},
		}}}), "its allowedTopologies"},
		"the same again":  {func(*unstructured.Unstructured) {}, ""},
		"another reclaim": {set("reclaimPolicy", "Delete"), ""},
		"not expandable":  {set("allowVolumeExpansion", false), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, ofDisks)
			first, _, err := l.plan(t, nil, false)
			require.NoError(t, err)
			class := l.server.Get("storageclasses", "", "disks")
			require.NoError(t, l.server.Remove(class))
			class.SetUID("")
			class.SetResourceVersion("")
			c.change(class)
			require.NoError(t, l.server.Put(class))
			_, plan, err := l.plan(t, first.Recorded(), true)
			require.NoError(t, err, "all are filled")
			require.Equal(t, "csi.example.com", plan.Volumes[0].Filled.Driver)
			_, _, err = l.plan(t, first.Recorded(), false)
			if c.refuse == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "someone has replaced it since run r began with it")
			require.ErrorContains(t, err, c.refuse)
			require.Contains(t, failure.HintOf(err), "tisnap restore abort r")
		})
	}
}

// Without the class the volumes that are missing cannot be made, nor those of PD.
func TestPlan_ClassWasDeleted_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t, ofDisks)
	first, _, err := l.plan(t, nil, false)
	require.NoError(t, err)
	require.NoError(t, l.server.Remove(l.server.Get("storageclasses", "", "disks")))
	for _, done := range []bool{false, true} {
		_, _, err = l.plan(t, first.Recorded(), done)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "someone has deleted it since run r began with it")
	}
}

// Volumes that name no class stay of the one that was the default.
func TestPlan_AnotherDefaultClass_TheRunsIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t, "")
	makeDefault := func(name string, is string) {
		class := l.server.Get("storageclasses", "", name)
		class.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": is})
		require.NoError(t, l.server.Put(class))
	}
	makeDefault("disks", "true")
	first, _, err := l.plan(t, nil, false)
	require.NoError(t, err)
	require.NoError(t, l.server.AddStorageClassOf("others", "csi.other.com"))
	makeDefault("disks", "false")
	makeDefault("others", "true")
	m, plan, err := l.plan(t, first.Recorded(), false)
	require.NoError(t, err)
	require.Equal(t, "disks", plan.Volumes[1].Filled.Class)
	require.NoError(t, m.OfDriver(&filled.Volume{Role: cluster.RoleData, Volume: blockvolume.Volume{Driver: "csi.example.com"}}))
	err = m.OfDriver(&filled.Volume{Role: cluster.RoleData, Volume: blockvolume.Volume{Driver: "csi.other.com"}})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)

	// The journals of earlier versions do not have it.
	_, plan, err = l.plan(t, &journal.FillVolumes{Archive: "a-1"}, false)
	require.NoError(t, err)
	require.Equal(t, "others", plan.Volumes[1].Filled.Class)
}

// A run that began without zones, where no node took its pods yet, stays without: its volumes are somewhere by now.
func TestPlan_NodesCameLater_NoZoneIsChosen(t *testing.T) {
	t.Parallel()
	l := newLab(t, ofDisks)
	l.way.Kube = nodes{nil, nil, nil}
	first, _, err := l.plan(t, nil, false)
	require.NoError(t, err)
	require.Equal(t, map[uint64]podnodes.Rules{1: ssd(), 2: ssd()}, first.Beside(), "they are made where TiKV may run")
	l.way.Kube = nodes{{"a"}, {"a"}, {"a"}}
	_, plan, err := l.plan(t, first.Recorded(), false)
	require.NoError(t, err)
	require.Empty(t, plan.Volumes[0].Zone)
	_, plan, err = l.plan(t, &journal.FillVolumes{}, false) // unreadable
	require.NoError(t, err)
	require.Equal(t, cluster.Zone("a"), plan.Volumes[0].Zone)
}
