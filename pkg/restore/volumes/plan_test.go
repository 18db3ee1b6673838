package volumes

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// scaledIn is a backup of a cluster whose pods are tikv-5, tikv-0 and tikv-2, with three volumes each, in
// another order on every store.
func scaledIn() *manifest.Manifest {
	m := &manifest.Manifest{}
	roles := []cluster.Role{cluster.RoleData, cluster.RoleRaftLog, cluster.RoleWAL}
	for i, ordinal := range []int{5, 0, 2} {
		st := cluster.Store{ID: cluster.StoreID(10 + ordinal), Ordinal: ordinal}
		for k := range roles {
			role := roles[(i+k)%len(roles)]
			name := fmt.Sprintf("%s-tikv-%d", role, ordinal)
			st.Volumes = append(st.Volumes, cluster.Volume{ID: cluster.VolumeID("vol-" + name), Role: role, PVC: name, PV: "pv-" + name})
			m.Snapshots = append(m.Snapshots, manifest.Snapshot{
				ID: cluster.SnapshotID("snap-" + name), Volume: cluster.VolumeID("vol-" + name), Store: st.ID, Role: role,
				MountPath: "/" + string(role), Zone: "us-west-2" + cluster.Zone("abc"[i]),
				VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100, IOPS: 3000, ThroughputMiB: 125},
			})
			object := func(name string) json.RawMessage { return fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name) }
			m.Kubernetes.PVCs = append(m.Kubernetes.PVCs, object(name))
			m.Kubernetes.PVs = append(m.Kubernetes.PVs, object("pv-"+name))
		}
		m.Source.Stores = append(m.Source.Stores, st)
	}
	return m
}

func TestPlanVolumes_OrdinalsWithGaps_KeepAStoresVolumesTogether(t *testing.T) {
	t.Parallel()
	volumes, err := planVolumes(scaledIn(), cluster.VolumeSpec{}, "", nil)
	require.NoError(t, err)
	require.Len(t, volumes, 9)
	from := map[int]int{0: 0, 1: 2, 2: 5}
	seen := map[string]bool{}
	for _, v := range volumes {
		name := fmt.Sprintf("%s-tikv-%d", v.Role, from[v.Ordinal])
		require.Equal(t, cluster.SnapshotID("snap-"+name), v.Snapshot, "ordinal %d, role %s", v.Ordinal, v.Role)
		require.EqualValues(t, 10+from[v.Ordinal], v.Store)
		require.Equal(t, "/"+string(v.Role), v.Mount)
		require.JSONEq(t, fmt.Sprintf(`{"metadata":{"name":%q}}`, name), string(v.Claim))
		require.JSONEq(t, fmt.Sprintf(`{"metadata":{"name":%q}}`, "pv-"+name), string(v.Object))
		seen[fmt.Sprint(v.Ordinal, v.Role)] = true
	}
	require.Len(t, seen, 9, "each pod has each role once")
}

func TestPlanVolumes_Zone_OverridesEachVolumesOwn(t *testing.T) {
	t.Parallel()
	own, err := planVolumes(scaledIn(), cluster.VolumeSpec{}, "", nil)
	require.NoError(t, err)
	zones := map[cluster.Zone]int{}
	for _, v := range own {
		zones[v.Zone]++
	}
	require.Len(t, zones, 3)
	all := map[cluster.Zone]cluster.Zone{"us-west-2a": "us-west-2d", "us-west-2b": "us-west-2d", "us-west-2c": "us-west-2d"}
	moved, err := planVolumes(scaledIn(), cluster.VolumeSpec{Type: "io2", IOPS: 7000}, "", all)
	require.NoError(t, err)
	for _, v := range moved {
		require.EqualValues(t, "us-west-2d", v.Zone)
		require.Equal(t, cluster.VolumeSpec{Type: "io2", SizeGiB: 100, IOPS: 7000}, v.Spec)
	}
}

func TestPlanVolumes_WhatCannotWork_IsRefused(t *testing.T) {
	t.Parallel()
	m := scaledIn()
	m.Kubernetes.PVCs = m.Kubernetes.PVCs[1:]
	_, err := planVolumes(m, cluster.VolumeSpec{}, "", nil)
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	require.ErrorContains(t, err, "no PVC or PV")
	_, err = planVolumes(scaledIn(), cluster.VolumeSpec{SizeGiB: 50}, "", nil)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestToken_IsOfOneVolumeOfOneRun(t *testing.T) {
	t.Parallel()
	volumes, err := planVolumes(scaledIn(), cluster.VolumeSpec{}, "", nil)
	require.NoError(t, err)
	tokens := map[string]bool{}
	for i := range volumes {
		v := &volumes[i]
		require.Equal(t, token("run", v, 0), token("run", v, 0))
		require.Len(t, token("run", v, 0), 64)
		tokens[token("run", v, 0)], tokens[token("other", v, 0)], tokens[token("run", v, 100)] = true, true, true
		v.generation++
		tokens[token("run", v, 0)] = true
	}
	require.Len(t, tokens, 36)
}
