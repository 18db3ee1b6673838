package preflight_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
)

const maxLag = 5 * time.Minute

func TestBackup_SoundCluster_IsDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
	top := src.Topology
	require.Equal(t, prod, top.Cluster)
	require.Equal(t, uint64(77), top.ClusterID)
	require.Equal(t, "8.5.0", top.Version)
	require.Equal(t, 2, top.TiDBReplicas)
	require.Len(t, top.Stores, 3)
	require.Len(t, top.VolumeIDs(), 6)
	require.Len(t, src.PVCs, 6)
	require.Len(t, src.PVs, 6)
	v := top.Stores[1].Volumes[0]
	require.Equal(t, cluster.Volume{
		ID: "vol-1-storage.data-dir", Role: cluster.RoleData, PVC: "pvc", PV: "pv", Zone: "us-west-2a",
		VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100, IOPS: 3000, ThroughputMiB: 125}, Encrypted: true, KMSKey: "key",
	}, v)
}

// A cluster of TiDB Operator 2.x has no TidbCluster, but a Cluster, groups and instances.
func TestBackup_ClusterOfOperator2_HasItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.tc.Object, w.tc.Objects = nil, []json.RawMessage{[]byte(`{"kind":"Cluster"}`), []byte(`{"kind":"TiKVGroup"}`)}
	src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
	require.Empty(t, src.TidbCluster)
	require.Equal(t, w.tc.Objects, src.Objects)
}

func TestBackup_TombstonesAndTiFlash_DoNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stores = append(w.stores, pd.Store{ID: 8, State: pd.StoreTombstone},
		pd.Store{ID: 9, State: pd.StoreDown, Labels: map[string]string{"engine": "tiflash"}})
	_, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
}

// Each row breaks one thing of a sound cluster.
func TestBackup_WhatWouldFailLater_IsRefused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		breaks  func(w *world)
		kind    failure.Kind
		message string
		hint    string
	}{
		{"recovery mode", func(w *world) { w.tc.RecoveryMode = true }, failure.Unready, "recovery mode", ""},
		{"unsteady by its objects", func(w *world) {
			w.tc.Unsteady = failure.New(failure.Unready, "check cluster", "tidb/prod", "it is paused").WithHint("end the pause")
		}, failure.Unready, "it is paused", "end the pause"},
		{"no stores", func(w *world) { w.stores, w.pods = nil, nil }, failure.Unready, "no TiKV store", ""},
		{"a store is down", func(w *world) { w.stores[1].State = pd.StoreDown }, failure.Unready, "store 2 (prod-tikv-1:20160) is Down", "Up"},
		{"a store leaves", func(w *world) { w.stores[1].State = pd.StoreOffline }, failure.Unready, "is Offline", "Tombstone"},
		{"a store without a pod", func(w *world) { w.pods = w.pods[:2] }, failure.Unready, "store 3 (prod-tikv-2:20160) is in PD but has no pod", ""},
		{"a pod without a store", func(w *world) { w.stores = w.stores[:2] }, failure.Unready, "pod prod-tikv-2 runs no store", ""},
		{"two stores in a pod", func(w *world) { w.tc.Stores[2] = "prod-tikv-0" }, failure.Unready, "both store 1 and store 2", ""},
		{"a pod that is not ready", func(w *world) { w.pods[0].Ready, w.pods[0].Reason = false, "OOMKilled" }, failure.Unready, "OOMKilled", ""},
		{"a node that is no instance", func(w *world) { w.pods[0].Instance = "" }, failure.Unready, "not an EC2 instance", ""},
		{"a role twice", func(w *world) { w.pods[0].Mounts[1].Role = cluster.RoleData }, failure.Unready, "two volumes", ""},
		{"no data volume", func(w *world) { w.pods[2].Mounts = w.pods[2].Mounts[1:] }, failure.Unready, "no EBS volume for storage.data-dir", ""},
		{"a volume that EC2 does not know", func(w *world) { w.volumes = w.volumes[1:] }, failure.NotFound, "vol-0-storage.data-dir", "--region"},
		{"a volume elsewhere", func(w *world) { w.volumes[3].Instance = "i-9" }, failure.Unready, `attached to "i-9"`, ""},
		{"a volume on an Outpost", func(w *world) { w.volumes[3].Outpost = "arn:aws:outposts:us-west-2:1:outpost/op-1" }, failure.Unready, "is on Outpost arn:aws:outposts:us-west-2:1:outpost/op-1", "into the Region"},
		{"a volume in error", func(w *world) { w.volumes[3].State = ebs.VolumeError }, failure.Unready, "state is error", ""},
		{"no resolved ts", func(w *world) { w.resolved.TS = 0 }, failure.Unready, "it is 0", "resolved-ts.enable"},
		{"a resolved ts that PD does not follow", func(w *world) { w.resolved.RealTime, w.resolved.Interval = false, 0 }, failure.Unready, "min-resolved-ts-persistence-interval is 0", "resolved-ts.enable"},
		{"an old resolved ts", func(w *world) {
			w.resolved.TS = cluster.MakeTS(now().Add(-time.Hour), 0)
			w.resolved.Stores[2] = w.resolved.TS
		}, failure.Unready, "lags 1h0m0s behind, more than --max-lag 5m0s; the lowest is that of store 2 (prod-tikv-1:20160), 1h0m0s behind", "leaders"},
		{"GC is past it", func(w *world) { w.gc = w.resolved.TS + 1 }, failure.Unready, "GC safe point", "tidb_gc_life_time"},
		{"a smaller quota", func(w *world) { w.quota, w.pending = 20, 15 }, failure.Limited, "15 are pending, 6 more", "--pending-quota"},
		{"a quota that may not be asked", func(w *world) {
			w.fail["Quotas"], w.pending = failure.New(failure.Denied, "list", "", "no"), 95
		}, failure.Limited, "95 are pending, 6 more", "wait"},
		{"too many pending snapshots", func(w *world) { w.pending = 95 }, failure.Limited, "95 are pending, 6 more", "wait"},
		{"no permission", func(w *world) {
			w.probe = failure.New(failure.Denied, "probe", "", "no").WithHint("allow ec2:CreateSnapshots")
		}, failure.Denied, "check permissions", "ec2:CreateSnapshots"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			c.breaks(w)
			src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
			require.Nil(t, src)
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.kind, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), c.hint)
		})
	}
}

// The snapshots of a Local Zone's volumes are kept in its Region: a backup is as good as any, a restore goes to the Region's zones.
func TestBackup_VolumesInALocalZone_AreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range w.volumes {
		w.volumes[i].Zone = "us-west-2-lax-1a"
	}
	src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
	require.Equal(t, cluster.Zone("us-west-2-lax-1a"), src.Topology.Stores[0].Volumes[0].Zone)
}

func TestBackup_AsManyPendingAsAllowed_IsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending = 94
	_, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
}

// No failed question is taken for an answer.
func TestBackup_AnyCallFails_ItsKindComesThrough(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		"Cluster", "TiKVPods", "ClusterID", "Version", "Stores", "Now", "ResolvedTS", "SafePoints", "DescribeVolumes", "PendingSnapshots", "SnapshotsInProgress",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			reason := errors.New("out of order")
			w.fail[method] = failure.Wrap(reason, failure.Limited, "ask", method)
			src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
			require.ErrorIs(t, err, reason)
			require.Equal(t, failure.Limited, failure.KindOf(err))
			require.Nil(t, src)
		})
	}
}

// A store that is being added or removed while its cluster is cut is not in the copy, or is empty in it.
func TestBackup_ScaleUnderWay_IsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*world)
		want   failure.Kind
	}{
		"out, no pod yet":         {func(w *world) { w.tc.TiKVReplicas = 4 }, failure.Unready},
		"in, pod still up":        {func(w *world) { w.tc.TiKVReplicas = 2 }, failure.Unready},
		"the Operator is scaling": {func(w *world) { w.tc.Scaling = true }, failure.Unready},
		"after a failover":        {func(w *world) { w.tc.TiKVReplicas, w.tc.FailureStores = 2, 1 }, failure.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			c.change(w)
			_, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
			require.Equal(t, c.want, failure.KindOf(err), "%v", err)
			if err != nil {
				require.ErrorContains(t, err, "being scaled")
			}
		})
	}
}

// They are waited for, and not refused.
func TestBackup_VolumeWithFivePendingSnapshots_IsListedAsBusy(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.busy = map[cluster.VolumeID]int{w.volumes[4].ID: 5, w.volumes[3].ID: 4}
	src, err := preflight.Backup(t.Context(), w, w, w, prod, preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}})
	require.NoError(t, err)
	require.Equal(t, []cluster.VolumeID{w.volumes[4].ID}, src.Busy)
}
