package ebs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// create makes a cluster with options of its own and waits until it serves.
func (w *whole) create(t *testing.T, o kubetest.ClusterOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, w.Kube.Put(kubetest.NewTidbCluster(o)))
	_, err := w.AwaitCluster(ctx, o.Name)
	require.NoError(t, err)
}

// handles maps the claims of a cluster to the volumes that they are bound to.
func (w *whole) handles(name cluster.Name) map[string]cluster.VolumeID {
	out := map[string]cluster.VolumeID{}
	for _, pvc := range w.Kube.List("persistentvolumeclaims", name.Namespace) {
		if pvc.GetLabels()["app.kubernetes.io/instance"] != name.Name {
			continue
		}
		pv, _, _ := unstructured.NestedString(pvc.Object, "spec", "volumeName")
		if found := w.Kube.Get("persistentvolumes", "", pv); found != nil {
			handle, _, _ := unstructured.NestedString(found.Object, "spec", "csi", "volumeHandle")
			out[pvc.GetName()] = cluster.VolumeID(handle)
		}
	}
	return out
}

// Another namespace has a cluster and claims of the same names, and an earlier copy left released persistent
// volumes that name the same claims: all volumes of the restore are bound, each to its own, and nothing else is
// touched.
// https://github.com/pingcap/tidb-operator/issues/5416 https://github.com/pingcap/tidb-operator/issues/5505
// Catalogue: E3.
func TestSameClaimsElsewhereAndReleasedVolumes_EachGetsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, func(c *testbed.Config) { c.Nodes = 9 })
	elsewhere := cluster.Name{Namespace: "other", Name: wholeTarget.Name}
	w.create(t, kubetest.ClusterOptions{Name: elsewhere, PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true})
	theirs := w.handles(elsewhere)
	require.Len(t, theirs, 6)
	w.backup(t, "b")
	w.destroy(t)

	w.ok(t, restoreInto()...)
	released := w.handles(wholeTarget)
	require.Len(t, released, 6)
	// The cluster first: claims that go while its StatefulSets live are made again.
	require.NoError(t, w.Kube.Remove(w.Kube.Get("tidbclusters", wholeTarget.Namespace, wholeTarget.Name)))
	require.Eventually(t, func() bool {
		return w.Nodes.Cluster(wholeTarget) == nil && len(w.Kube.List("statefulsets", wholeTarget.Namespace)) == 0
	}, time.Minute, 20*time.Millisecond)
	for _, pvc := range w.Kube.List("persistentvolumeclaims", wholeTarget.Namespace) {
		require.NoError(t, w.Kube.Remove(pvc))
	}
	require.Eventually(t, func() bool {
		for _, pv := range w.Kube.List("persistentvolumes", "") {
			namespace, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "namespace")
			phase, _, _ := unstructured.NestedString(pv.Object, "status", "phase")
			if namespace == wholeTarget.Namespace && phase != "Released" {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)

	w.ok(t, restoreInto()...)
	own := w.handles(wholeTarget)
	require.Len(t, own, 6)
	for claim, v := range own {
		require.NotContains(t, theirs, v)
		require.NotEqual(t, released[claim], v, "the volume of the earlier copy is not taken up")
		_, kept := w.EC2.Volume(released[claim])
		require.True(t, kept)
	}
	require.Equal(t, theirs, w.handles(elsewhere))
}

// The source's ordinals have gaps and each store has three volumes: the target counts from 0, and the volumes of a
// store stay together, each in its role.
// https://github.com/pingcap/tidb-operator/issues/4884 https://github.com/pingcap/tidb-operator/issues/4950
// Catalogue: E4.
func TestOrdinalsWithGapsAndThreeVolumes_EachStoreKeepsItsTuple(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, func(c *testbed.Config) { c.Nodes = 6 })
	gaps := cluster.Name{Namespace: "tidb", Name: "gaps"}
	w.create(t, kubetest.ClusterOptions{
		Name: gaps, PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, WALVolume: true, DeleteSlots: []int{1, 3, 4},
	})
	from := w.handles(gaps)
	require.Len(t, from, 9)
	require.Contains(t, from, "tikv-wal-gaps-tikv-5")
	w.ok(t, "backup", gaps.String(), "--name", "b")
	m, err := catalog.Catalog{Store: w.store(t)}.Load(t.Context(), "b")
	require.NoError(t, err)
	require.Len(t, m.Snapshots, 9)

	w.ok(t, restoreInto()...)
	to := w.handles(wholeTarget)
	require.Len(t, to, 9)
	stores := map[string]string{} // by ordinal of the target
	for claim, id := range to {
		v, ok := w.EC2.Volume(id)
		require.True(t, ok)
		role, ordinal, found := strings.Cut(claim, "-copy-tikv-")
		require.True(t, found, claim)
		require.Contains(t, []string{"0", "1", "2"}, ordinal)
		if stores[ordinal] == "" {
			stores[ordinal] = v.Tags[ebs.TagStore]
		}
		require.Equal(t, stores[ordinal], v.Tags[ebs.TagStore], "%s is of another store than its pod's other volumes", claim)
		for _, snap := range m.Snapshots {
			if snap.ID != v.Snapshot {
				continue
			}
			require.Equal(t, snap.Store.String(), v.Tags[ebs.TagStore])
			require.Equal(t, role+"-gaps-tikv-"+ordinalOf(from, snap.Volume), claimOf(from, snap.Volume), "the volume is in another role")
		}
	}
	require.Len(t, stores, 3)
}

func claimOf(handles map[string]cluster.VolumeID, v cluster.VolumeID) string {
	for claim, of := range handles {
		if of == v {
			return claim
		}
	}
	return ""
}

func ordinalOf(handles map[string]cluster.VolumeID, v cluster.VolumeID) string {
	claim := claimOf(handles, v)
	return claim[strings.LastIndex(claim, "-")+1:]
}

// The volumes are there and the pods do not start, as their nodes have no room for another attachment: the
// restore waits, deletes nothing meanwhile, and if that does not end, reports it in the driver's words.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/1801
// Catalogue: E13.
func TestVolumesAreNotAttached_IsWaitedForOrNamed(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3)
	var refusals atomic.Int64
	w.fault(t, fault.Rule{Point: "csi.Attach", Times: 12, Do: func() {
		refusals.Add(1)
		assert.Len(t, w.restored(), 6, "a volume that waits is not deleted")
	}})
	w.ok(t, restoreInto()...)
	require.EqualValues(t, 12, refusals.Load())
	w.balanced(t)

	w.fault(t, fault.Rule{Point: "csi.Attach", Times: -1})
	e := w.run(t, "restore", "b", "--to", "tidb/again", "--timeout", "5s", "--keep-on-failure")
	require.EqualValues(t, 8, e.code, e.stderr)
	require.Contains(t, e.stderr, "start TiKV: await-stores: failed")
	require.Contains(t, e.stderr, "FailedAttachVolume: AttachVolume.Attach failed for volume")
	require.Contains(t, e.stderr, "AttachmentLimitExceeded")
	require.Len(t, w.restored(), 12, "they are kept, as asked")

	e = w.run(t, "restore", "b", "--to", "tidb/third", "--timeout", "5s")
	require.EqualValues(t, 8, e.code, e.stderr)
	require.Eventually(t, func() bool { return len(w.restored()) == 12 }, 20*time.Second, 50*time.Millisecond, "a failed run leaves none if it is not asked to")
}

// The garbage collector is slow, so that the StatefulSets of a failed restore's cluster live on: they would make its claims
// again, and the CSI driver new volumes, which carry no run.
// https://github.com/kubernetes/kubernetes/issues/42677
// Catalogue: E15.
func TestStatefulSetsOutliveTheirCluster_FailedRestoreLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, func(c *testbed.Config) { c.Nodes, c.Collect = 6, 30*24*time.Hour })
	w.backup(t, "b")
	before := len(w.EC2.Volumes())
	w.fault(t, fault.Rule{Point: "tikv.*.ReadRegionMeta", Code: "PermissionDenied", Times: -1})
	e := w.run(t, restoreInto()...)
	require.NotZero(t, e.code, e.stderr)
	require.Nil(t, w.Kube.Get("statefulsets", "tidb", wholeTarget.Name+"-tikv"))
	require.Nil(t, w.Kube.Get("tidbclusters", "tidb", wholeTarget.Name))
	for _, kind := range []string{"persistentvolumeclaims", "persistentvolumes"} {
		for _, o := range w.Kube.List(kind, "") {
			require.NotContains(t, o.GetName()+o.GetLabels()["app.kubernetes.io/instance"], wholeTarget.Name)
		}
	}
	require.Empty(t, w.restored())
	require.Len(t, w.EC2.Volumes(), before, "the CSI driver made none")
}
