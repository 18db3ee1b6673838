package filled_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

func stores(zones ...cluster.Zone) (planned []volumes.Volume) {
	for i, zone := range zones {
		planned = append(planned, volumes.Volume{Store: cluster.StoreID(i + 1), Ordinal: i, Zone: zone})
	}
	return planned
}

// Stores keep their zones where the target has them all; otherwise those of different zones stay apart if there are
// enough, and those of one zone are spread evenly.
func TestSpread_OverTheTargetsZones(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of      []volumes.Volume
		chosen  filled.Zones
		targets []cluster.Zone
		want    []cluster.Zone
	}{
		"the same zones":   {stores("a", "b", "c"), filled.Zones{}, []cluster.Zone{"a", "b", "c", "d"}, []cluster.Zone{"a", "b", "c"}},
		"others":           {stores("a", "b", "a", "b"), filled.Zones{}, []cluster.Zone{"x", "y"}, []cluster.Zone{"x", "y", "x", "y"}},
		"others, in pairs": {stores("a", "a", "b", "b"), filled.Zones{}, []cluster.Zone{"x", "y"}, []cluster.Zone{"x", "x", "y", "y"}},
		"a part":           {stores("a", "b"), filled.Zones{}, []cluster.Zone{"a", "y"}, []cluster.Zone{"a", "y"}},
		"more":             {stores("a", "a", "a"), filled.Zones{}, []cluster.Zone{"x", "y", "z"}, []cluster.Zone{"x", "y", "z"}},
		"more, for two to a zone": {stores("a", "b", "c", "a", "b", "c"), filled.Zones{}, []cluster.Zone{"w", "x", "y", "z"},
			[]cluster.Zone{"w", "x", "y", "w", "x", "y"}},
		"fewer":         {stores("a", "b", "c"), filled.Zones{}, []cluster.Zone{"x", "y"}, []cluster.Zone{"x", "y", "x"}},
		"none":          {stores("a", "b"), filled.Zones{}, nil, []cluster.Zone{"", ""}},
		"one is chosen": {stores("a", "b"), filled.Zones{All: "y"}, []cluster.Zone{"x", "y"}, []cluster.Zone{"y", "y"}},
		"a map is": {stores("a", "b"), filled.Zones{Pairs: []volumes.ZonePair{{From: "a", To: "y"}, {From: "b", To: "x"}}},
			[]cluster.Zone{"x", "y"}, []cluster.Zone{"y", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := filled.Spread(c.of, c.chosen, c.targets)
			require.NoError(t, err)
			for i, zone := range c.want {
				require.Equal(t, zone, got[cluster.StoreID(i+1)], "store %d", i+1)
			}
		})
	}
	_, err := filled.Spread(stores("a"), filled.Zones{All: "elsewhere"}, []cluster.Zone{"x"})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

// Stores go where the classes of all their volumes may make them; no zone of such a kind is found before anything is made.
func TestAllowed_ZonesOfAllClasses(t *testing.T) {
	t.Parallel()
	nodes := []cluster.Zone{"a", "b", "c"}
	for name, c := range map[string]struct {
		of   [][]cluster.Zone
		want []cluster.Zone
	}{
		"all":      {[][]cluster.Zone{nil, nil}, nodes},
		"some":     {[][]cluster.Zone{{"c", "a", "z"}, nil}, []cluster.Zone{"a", "c"}},
		"of two":   {[][]cluster.Zone{{"a", "b"}, {"b", "c"}}, []cluster.Zone{"b"}},
		"of none":  {[][]cluster.Zone{{"x"}}, nil},
		"not both": {[][]cluster.Zone{{"a"}, {"b"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := filled.Allowed(nodes, c.of...)
			require.Equal(t, c.want, got)
			if c.want == nil {
				require.Equal(t, failure.Unready, failure.KindOf(err))
				require.ErrorContains(t, err, "its volumes may only be in the zones")
			} else {
				require.NoError(t, err)
			}
		})
	}
	got, err := filled.Allowed(nil, []cluster.Zone{"a"})
	require.NoError(t, err, "the nodes have no zones")
	require.Empty(t, got)
	require.Equal(t, []cluster.Zone{"a", "b", "c"}, nodes, "they stay as they are")
}

// The chosen class takes the place of each that the source names, and numbers stay as they are.
func TestOfClass_ReplacesAllOfTheSources(t *testing.T) {
	t.Parallel()
	tc := `{"kind":"TidbCluster","spec":{"big":9007199254740993,"pd":{"storageClassName":"gp3"},` +
		`"tikv":{"storageVolumes":[{"storageClassName":"io2"},{"name":"none"}]}}}`
	m := &manifest.Manifest{ID: "b", Kubernetes: manifest.Kubernetes{
		TidbCluster: json.RawMessage(tc),
		PVCs:        []json.RawMessage{json.RawMessage(`{"kind":"PersistentVolumeClaim","spec":{"volumeAttributesClassName":"fast"}}`)},
		PVs:         []json.RawMessage{json.RawMessage(`{"kind":"PersistentVolume","spec":{"storageClassName":"gp3"}}`)},
	}}
	out, err := (&filled.Way{Class: "disks"}).OfClass(m)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"TidbCluster","spec":{"big":9007199254740993,"pd":{"storageClassName":"disks"},`+
		`"tikv":{"storageVolumes":[{"storageClassName":"disks"},{"name":"none"}]}}}`, string(out.Kubernetes.TidbCluster))
	require.Contains(t, string(out.Kubernetes.TidbCluster), "9007199254740993")
	require.JSONEq(t, `{"kind":"PersistentVolumeClaim","spec":{"storageClassName":"disks"}}`, string(out.Kubernetes.PVCs[0]))
	require.JSONEq(t, `{"kind":"PersistentVolume","spec":{"storageClassName":"disks"}}`, string(out.Kubernetes.PVs[0]))
	require.JSONEq(t, tc, string(m.Kubernetes.TidbCluster), "the source's stays as it is")
	same, err := (&filled.Way{}).OfClass(m)
	require.NoError(t, err)
	require.Equal(t, m, same)
}

// A volume that none was filled with is not bound.
func TestFilled_OneIsMissing_Corrupt(t *testing.T) {
	t.Parallel()
	plan := volumes.Plan{Volumes: []volumes.Volume{
		{Store: 1, Role: cluster.RoleData, Snapshot: "snap-1"}, {Store: 2, Role: cluster.RoleData, Snapshot: "snap-2"},
	}}
	made := filled.Made{{Store: 1, Role: cluster.RoleData}, {Store: 2, Role: cluster.RoleData}}
	of, err := made.BySnapshot(plan)
	require.NoError(t, err)
	require.Equal(t, cluster.StoreID(2), of["snap-2"].Store)
	_, err = made[:1].BySnapshot(plan)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
}
