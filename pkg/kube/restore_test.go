package kube_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

const run = cluster.RunID("rst-20260822-1")

// restored makes the volumes of a restore of the pods, with ordinals from 0.
func (l *lab) restored(pods []kube.Pod, target cluster.Name, zone cluster.Zone) []kube.RestoredVolume {
	var list []kube.RestoredVolume
	for i, p := range pods {
		for j, m := range p.Mounts {
			id := cluster.VolumeID(fmt.Sprintf("vol-aa%d%d", i, j))
			l.disks.Add(id, zone, true)
			list = append(list, kube.RestoredVolume{
				Cluster: target, Run: run, Ordinal: i, Role: m.Role, MountPath: m.MountPath,
				Volume: id, Zone: zone, SizeGiB: 12, Claim: m.Claim, Object: m.Object,
			})
		}
	}
	return list
}

func TestRestore_OrdinalsWithGapsAndThreeVolumes_BindsEachRoleToItsVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src"), RaftLogVolume: true, WALVolume: true, DeleteSlots: []int{1, 3, 4}})
	pods := l.awaitReady(t, from, 3)
	assert.Equal(t, []int{0, 2, 5}, []int{pods[0].Ordinal, pods[1].Ordinal, pods[2].Ordinal})
	tc, err := l.client.Cluster(t.Context(), from)
	require.NoError(t, err)

	target := cluster.Name{Namespace: "other", Name: "dst"}
	require.NoError(t, l.client.CreateCluster(t.Context(), tc.Object, kube.Target{Name: target, Run: run}))
	require.NoError(t, l.client.CreateCluster(t.Context(), tc.Object, kube.Target{Name: target, Run: run}), "again by the same run")
	require.Eventually(t, func() bool {
		got, err := l.client.Cluster(t.Context(), target)
		return err == nil && got.RecoveryMode && len(got.PDAddresses) == 1
	}, patience, 5*time.Millisecond)
	none, err := l.client.TiKVPods(t.Context(), target)
	require.NoError(t, err)
	assert.Empty(t, none, "tikv waits for the volumes")

	volumes := l.restored(pods, target, "us-west-2b")
	for range 2 {
		for _, v := range volumes {
			require.NoError(t, l.client.BindVolume(t.Context(), v))
		}
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	made := l.awaitReady(t, target, 3)
	for i, p := range made {
		assert.Equal(t, i, p.Ordinal)
		assert.Equal(t, cluster.Zone("us-west-2b"), p.Zone)
		require.Len(t, p.Mounts, 3)
		for j, m := range p.Mounts {
			assert.Equal(t, volumes[i*3+j].Volume, m.Volume)
			assert.Equal(t, volumes[i*3+j].Role, m.Role)
		}
	}
	assert.Equal(t, []string{
		"tikv-dst-tikv-0", "tikv-dst-tikv-1", "tikv-dst-tikv-2",
		"tikv-raft-log-dst-tikv-0", "tikv-raft-log-dst-tikv-1", "tikv-raft-log-dst-tikv-2",
		"tikv-wal-dst-tikv-0", "tikv-wal-dst-tikv-1", "tikv-wal-dst-tikv-2",
	}, must(l.client.Claims(t.Context(), target)))
	// The Operator does not look at recovery mode for TiDB: it makes what belongs to it, of no pod.
	var set *unstructured.Unstructured
	require.Eventually(t, func() bool {
		set = l.server.Get("statefulsets", "other", "dst-tidb")
		return set != nil
	}, patience, 5*time.Millisecond)
	replicas, _, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
	require.NoError(t, err)
	require.Zero(t, replicas, "TiDB waits for the end of recovery mode")
	_, _, tidb := l.runtime.Running(target)
	require.Zero(t, tidb)

	require.NoError(t, l.client.LeaveRecovery(t.Context(), target))
	require.Zero(t, must(l.client.Cluster(t.Context(), target)).TiDBReplicas, "replicas may have to be rebuilt first")
	require.NoError(t, l.client.StartTiDB(t.Context(), target))
	l.awaitUp(t, target, 1)
	require.Eventually(t, func() bool { return len(l.runtime.Starts()) == 9 }, patience, 5*time.Millisecond, "source, target in recovery mode, target")
	assert.False(t, l.runtime.Starts()[8].Recovery)
	assert.NotContains(t, l.server.Get("tidbclusters", "other", "dst").GetAnnotations(), "tidb.pingcap.com/tikv-volumes-ready")
	before := l.server.MutatingCalls()
	require.NoError(t, l.client.LeaveRecovery(t.Context(), target))
	require.NoError(t, l.client.StartTiDB(t.Context(), target))
	assert.Equal(t, before, l.server.MutatingCalls(), "a second call restarts nothing")
}

func TestTiKVPods_SameClaimNamesInAnotherNamespace_KeepsVolumesApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.start(t, kubetest.ClusterOptions{Name: cluster.Name{Namespace: "a", Name: "src"}})
	b := l.start(t, kubetest.ClusterOptions{Name: cluster.Name{Namespace: "b", Name: "src"}})
	var seen []cluster.VolumeID
	for _, name := range []cluster.Name{a, b} {
		for _, p := range l.awaitReady(t, name, 3) {
			require.Len(t, p.Mounts, 1)
			assert.NotContains(t, seen, p.Mounts[0].Volume)
			seen = append(seen, p.Mounts[0].Volume)
			assert.NotEmpty(t, p.Instance)
		}
	}
	assert.Len(t, seen, 6)
}

func TestTiKVPods_UnusedClaims_AreLeftOut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	used := l.server.Get("persistentvolumeclaims", "tidb", "tikv-src-tikv-0")
	for _, stray := range []string{"tikv-src-tikv-7", "tikv-src-tikv-8"} {
		c := used.DeepCopy()
		c.SetName(stray)
		require.NoError(t, l.server.Put(c))
	}
	for _, p := range l.awaitReady(t, name, 3) {
		require.Len(t, p.Mounts, 1)
		assert.Equal(t, "tikv-"+p.Name, p.Mounts[0].PVC)
	}
	assert.Len(t, must(l.client.Claims(t.Context(), name)), 5)
}

func TestTiKVPods_ClaimNotBound_IsUnreadyWithThePods(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	c := l.server.Get("persistentvolumes", "", l.awaitReady(t, name, 3)[0].Mounts[0].PV)
	require.NoError(t, l.server.Put(withField(c, "other", "spec", "claimRef", "namespace")))
	pods, err := l.client.TiKVPods(t.Context(), name)
	assert.Equal(t, failure.Unready, failure.KindOf(err))
	assert.ErrorContains(t, err, "bound to another claim")
	assert.Len(t, pods, 3)
}

func TestTiKVPods_VolumeNotAvailable_PodGivesTheReason(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	pods := l.awaitReady(t, from, 3)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), clusterObject(t, l, from), kube.Target{Name: target, Run: run}))
	volumes := l.restored(pods, target, "us-west-2a")
	l.disks.Add(volumes[1].Volume, "us-west-2a", false)
	for _, v := range volumes {
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	require.Eventually(t, func() bool {
		found, err := l.client.TiKVPods(t.Context(), target)
		return err == nil && len(found) == 3 && found[0].Ready && !found[1].Ready &&
			assert.ObjectsAreEqual("FailedAttachVolume: AttachVolume.Attach failed for volume \"vol-aa10\": IncorrectState: Volume 'vol-aa10' is not 'available'.", found[1].Reason)
	}, patience, 5*time.Millisecond)
	l.disks.Add(volumes[1].Volume, "us-west-2a", true)
	l.awaitReady(t, target, 3)
}

func TestDeleteCluster_OwnTarget_KeepsTheEBSVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	pods := l.awaitReady(t, from, 3)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), clusterObject(t, l, from), kube.Target{Name: target, Run: run}))
	volumes := l.restored(pods, target, "us-west-2a")
	for _, v := range volumes {
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	l.awaitReady(t, target, 3)

	err := l.client.DeleteCluster(t.Context(), target, "another-run", false)
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	_, err = l.client.Cluster(t.Context(), target)
	assert.Equal(t, failure.NotFound, failure.KindOf(err))
	assert.Contains(t, failure.HintOf(err), "src")
	assert.Empty(t, must(l.client.Claims(t.Context(), target)))
	require.Eventually(t, func() bool { // the attacher's finalizer keeps those that are attached
		return len(l.server.List("persistentvolumes", "")) == 3
	}, patience, 5*time.Millisecond, "the source's")
	require.Eventually(t, func() bool {
		attached := l.disks.Attached()
		return len(attached) == 3 && !slices.ContainsFunc(volumes, func(v kube.RestoredVolume) bool { return attached[v.Volume] != "" })
	}, patience, 5*time.Millisecond)
	for _, v := range volumes {
		assert.Equal(t, cluster.Zone("us-west-2a"), l.disks.Zone(v.Volume))
	}
	l.awaitReady(t, from, 3)
	require.NoError(t, l.client.CreateCluster(t.Context(), clusterObject(t, l, from), kube.Target{Name: target, Run: "next-run"}), "the name is free again")
}

// clusterObject reads the object of a cluster.
func clusterObject(t *testing.T, l *lab, name cluster.Name) json.RawMessage {
	t.Helper()
	tc, err := l.client.Cluster(t.Context(), name)
	require.NoError(t, err)
	return tc.Object
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
