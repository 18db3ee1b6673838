package kube_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// bound makes a target with three restored volumes; nothing moves on its own.
func bound(t *testing.T, l *lab) {
	t.Helper()
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: run}))
	for ordinal := range 3 {
		v := recordedVolume(t, source("dst"))
		v.Ordinal = ordinal
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
}

func TestUndo_TransientErrors_AreRetriedByItsDeadline(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"kube.get.*", "kube.list.*", "kube.update.*", "kube.delete.*"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			bound(t, l)
			require.NoError(t, l.faults.Add(fault.Rule{Point: point, Position: fault.Before, Code: "ServiceUnavailable", Times: 2}))
			require.NoError(t, l.client.DeleteCluster(t.Context(), source("dst"), run, false))
			require.Empty(t, l.server.List("persistentvolumes", ""))
			require.Empty(t, l.server.List("persistentvolumeclaims", ""))
		})
	}
}

func TestUndo_TransientErrorsForEver_EndWithTheDeadline(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.Before, Code: "ServiceUnavailable", Times: -1}))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Equal(t, failure.Limited, failure.KindOf(l.client.DeleteCluster(ctx, source("dst"), run, false)), "the deadline ends it")
}

func TestUndo_OneDeletionFails_TheOthersAreDone(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.persistentvolumeclaims", Position: fault.Before, Code: "RequestEntityTooLarge"}))
	require.Equal(t, failure.Usage, failure.KindOf(l.client.DeleteCluster(t.Context(), source("dst"), run, false)))
	require.Len(t, l.server.List("persistentvolumeclaims", ""), 1)
	require.Empty(t, l.server.List("persistentvolumes", ""))
}

// A controller of the Operator gives spec.pvReclaimPolicy to restored volumes too, within seconds.
func TestUndo_ReclaimPolicyDeleteByTheOperator_KeepsTheEBSVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	pods := l.awaitReady(t, from, 3)
	o := withField(l.server.Get("tidbclusters", "tidb", "src"), "Delete", "spec", "pvReclaimPolicy")
	object, err := o.MarshalJSON()
	require.NoError(t, err)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), object, kube.Target{Name: target, Run: run}))
	volumes := l.restored(pods, target, "us-west-2a")
	for _, v := range volumes {
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	l.awaitReady(t, target, 3)
	require.Eventually(t, func() bool { return l.policies("tisnap-") == "Delete Delete Delete" }, patience, 5*time.Millisecond)
	claims, deleted := len(l.server.List("persistentvolumeclaims", ""))-3, atomic.Int64{} // but the source's
	l.faults.Watch(func(point string) *fault.Rule {
		if point == "kube.delete.persistentvolumeclaims" && int(deleted.Add(1)) == claims {
			assert.Equal(t, "Retain Retain Retain", l.policies("tisnap-"), "a claim takes its EBS volume along")
		}
		return nil
	})
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.GreaterOrEqual(t, int(deleted.Load()), claims)
	l.awaitDetached(t, 3)
	for _, v := range volumes {
		require.NotEmpty(t, l.disks.Zone(v.Volume), "the run deletes it, not Kubernetes")
	}
	require.Empty(t, l.policies("tisnap-"))
}

// policies are the reclaim policies of the volumes whose names begin with prefix.
func (l *lab) policies(prefix string) string {
	var all []string
	for _, pv := range l.server.List("persistentvolumes", "") {
		if strings.HasPrefix(pv.GetName(), prefix) {
			policy, _, _ := unstructured.NestedString(pv.Object, "spec", "persistentVolumeReclaimPolicy")
			all = append(all, policy)
		}
	}
	return strings.Join(all, " ")
}

func (l *lab) awaitDetached(t *testing.T, left int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(l.disks.Attached()) == left }, patience, 5*time.Millisecond)
}

// PD's volume was made by Kubernetes, with the policy Retain: it used to stay, and was never found.
func TestUndo_VolumeOfPD_IsDeletedWithTheCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 1})
	l.awaitReady(t, from, 1)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), oneStore(t), kube.Target{Name: target, Run: run}))
	for _, cluster := range []string{"src", "dst"} {
		l.provision(t, cluster)
	}
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.Eventually(t, func() bool { return l.disks.Zone("vol-0dst") == "" }, patience, 5*time.Millisecond)
	require.NotEmpty(t, l.disks.Zone("vol-0src"), "that of another cluster stays")
	require.Eventually(t, func() bool { return l.policies("pvc-src")+l.policies("pvc-dst") == "Retain" }, patience, 5*time.Millisecond)
	remaining, err := l.client.Remaining(t.Context(), target, run)
	require.NoError(t, err)
	require.Empty(t, remaining)
}

// provision makes PD's claim with its volume, and waits until they are bound.
func (l *lab) provision(t *testing.T, name string) {
	t.Helper()
	id := cluster.VolumeID("vol-0" + name)
	l.disks.Add(id, "us-west-2a", true)
	claim := l.server.Get("persistentvolumeclaims", "tidb", "tikv-src-tikv-0")
	pv := l.server.Get("persistentvolumes", "", must(nestedString(claim, "spec", "volumeName")))
	claim.SetName("pd-" + name + "-pd-0")
	claim.SetLabels(map[string]string{"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "pd"})
	claim.SetAnnotations(nil)
	unstructured.RemoveNestedField(claim.Object, "spec", "volumeName")
	unstructured.RemoveNestedField(claim.Object, "status")
	require.NoError(t, l.server.Put(claim))
	made := l.server.Get("persistentvolumeclaims", "tidb", claim.GetName())
	pv.SetName("pvc-" + name)
	pv.SetLabels(nil)
	pv.SetFinalizers(nil) // it is not attached
	pv = withField(withField(pv, string(id), "spec", "csi", "volumeHandle"), claim.GetName(), "spec", "claimRef", "name")
	require.NoError(t, l.server.Put(withField(pv, string(made.GetUID()), "spec", "claimRef", "uid")))
	require.Eventually(t, func() bool {
		phase, _, _ := unstructured.NestedString(l.server.Get("persistentvolumeclaims", "tidb", claim.GetName()).Object, "status", "phase")
		return phase == "Bound"
	}, patience, 5*time.Millisecond)
}

func nestedString(o *unstructured.Unstructured, path ...string) (string, error) {
	s, _, err := unstructured.NestedString(o.Object, path...)
	return s, err
}

// With any other policy Kubernetes would delete the EBS volume with the PV.
func TestDeleteVolume_PolicyIsNotRetain_ThePVIsNotDeleted(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("dst"))))
	pv := l.server.List("persistentvolumes", "")[0]
	require.NoError(t, l.server.Put(withField(pv, "Delete", "spec", "persistentVolumeReclaimPolicy")))
	l.server.Deny("update", "persistentvolumes")
	require.Equal(t, failure.Denied, failure.KindOf(l.client.DeleteRestored(t.Context(), source("dst"), run)))
	require.Equal(t, "Delete", l.policies("tisnap-"))
	require.NotContains(t, strings.Join(l.server.MutatingCalls(), "\n"), "delete persistentvolumes ")
}

func TestDeleteVolume_PolicyChangedMeanwhile_IsSetAgainFirst(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("dst"))))
	var deletedWith []string
	changed := false
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.persistentvolumes", Position: fault.Slow, Times: 2, Do: func() {
		if !changed {
			changed = true
			pv := l.server.List("persistentvolumes", "")[0]
			_ = l.server.Put(withField(pv, "Delete", "spec", "persistentVolumeReclaimPolicy"))
			return
		}
		deletedWith = append(deletedWith, l.policies("tisnap-"))
	}}))
	require.NoError(t, l.client.DeleteRestored(t.Context(), source("dst"), run))
	require.Equal(t, []string{"Retain"}, deletedWith, "the deletion that counted")
	require.Empty(t, l.server.List("persistentvolumes", ""))
}

// Between the read and the deletion someone may have put another cluster of the name there.
func TestDeleteCluster_ReplacedMeanwhile_TheOtherOneStays(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.Slow, Do: func() {
		_ = l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst"))
		_ = l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")}))
	}}))
	require.Equal(t, failure.Conflict, failure.KindOf(l.client.DeleteCluster(t.Context(), source("dst"), run, false)))
	require.NotNil(t, l.server.Get("tidbclusters", "tidb", "dst"))
}

// Helm and Argo CD set the label on the TidbCluster, and the Operator then labels everything with its value.
func TestLabels_InstanceNameOfTheOperator_IsWhatIsSelectedBy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), RaftLogVolume: true})
	tc.SetLabels(map[string]string{"app.kubernetes.io/instance": "release-1"})
	require.NoError(t, l.server.Put(tc))
	l.awaitUp(t, source("src"), 1)
	pods := l.awaitReady(t, source("src"), 3)
	require.Len(t, must(l.client.Claims(t.Context(), source("src"))), 6)
	from := must(l.client.Cluster(t.Context(), source("src")))
	require.Equal(t, "release-1", from.Instance)

	existing := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst"), RaftLogVolume: true, RecoveryMode: true})
	existing.SetLabels(map[string]string{"app.kubernetes.io/instance": "release-2"})
	require.NoError(t, l.server.Put(existing))
	volumes := l.restored(pods, source("dst"), "us-west-2a")
	for _, v := range volumes {
		v.Instance = "release-2"
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), source("dst")))
	made := l.awaitReady(t, source("dst"), 3)
	require.True(t, slices.ContainsFunc(made[0].Mounts, func(m kube.Mount) bool { return m.PVC == "tikv-raft-log-dst-tikv-0" }))
	require.NoError(t, l.client.LeaveRecovery(t.Context(), source("dst")))
	require.Eventually(t, func() bool { return len(l.runtime.Starts()) == 9 }, patience, 5*time.Millisecond, "its pods were found and restarted")
	require.False(t, l.runtime.Starts()[8].Recovery)
}

func TestNumberOfStores_AfterAFailover_OfTheSource(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src")})
	require.NoError(t, l.server.Put(withField(tc, map[string]any{"4": map[string]any{"podName": "src-tikv-1"}}, "status", "tikv", "failureStores")))
	l.awaitReady(t, source("src"), 4)
	require.Equal(t, 1, must(l.client.Cluster(t.Context(), source("src"))).FailureStores)
}
