package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/wait"
)

// filled fills a claim for each volume of a restore, and returns these as those of the claims.
func (l *lab) filled(t *testing.T, of []kube.RestoredVolume) []kube.RestoredVolume {
	t.Helper()
	core, err := l.server.Client(http.DefaultTransport)
	require.NoError(t, err)
	asks := l.client.BlockVolumes()
	asks.Interval = time.Millisecond
	var out []kube.RestoredVolume
	for _, v := range of {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		claim, err := asks.Make(ctx, blockvolume.Spec{
			Run: run, Namespace: v.Cluster.Namespace, Name: blockvolume.NameOf(run, uint64(v.Ordinal), string(v.Role)),
			Class: "ebs-sc", SizeGiB: v.SizeGiB, Content: "an archive",
		})
		require.NoError(t, err)
		block, made := corev1.PersistentVolumeBlock, must(core.PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{}))
		_, err = core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pvc-" + claim.UID, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"},
			},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: made.Spec.Resources.Requests, AccessModes: made.Spec.AccessModes, VolumeMode: &block,
				StorageClassName: "ebs-sc", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef: &corev1.ObjectReference{
					Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: made.Namespace, Name: made.Name, UID: made.UID,
				},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: string(v.Volume)},
				},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{string(v.Zone)},
					}}}},
				}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, wait.Until(ctx, wait.Every(5*time.Millisecond), func() (bool, error) {
			_, err := asks.Bound(ctx, claim)
			return !failure.Transient(err), err
		}))
		require.NoError(t, asks.MarkVolume(ctx, claim))
		require.NoError(t, asks.Mark(ctx, claim, "an archive"))
		cancel()
		v.Filled = &kube.FilledClaim{Claim: claim, Driver: "ebs.csi.aws.com", Class: "ebs-sc"}
		out = append(out, v)
	}
	return out
}

// taken requires that the volumes are those of the target's claims alone, and stay when the target goes, until what the run
// left is removed.
func (l *lab) taken(t *testing.T, of []kube.RestoredVolume, remove func()) {
	t.Helper()
	mounted := map[cluster.VolumeID]bool{}
	for _, pod := range must(l.client.TiKVPods(t.Context(), of[0].Cluster)) {
		for _, m := range pod.Mounts {
			mounted[m.Volume] = true
		}
	}
	for _, v := range of {
		require.True(t, mounted[v.Volume], "%s is no pod's", v.Volume)
		require.Nil(t, l.server.Get("persistentvolumeclaims", v.Cluster.Namespace, v.Filled.Name))
	}
	remove()
	for _, v := range of {
		require.NotEmpty(t, l.disks.Zone(v.Volume), "it is removed by what made it")
	}
	left, err := l.client.Leftover(t.Context(), of[0].Cluster, run)
	require.NoError(t, err)
	require.Empty(t, left.UID)
	require.Empty(t, left.Claims)
	require.Len(t, left.Volumes, len(of))
	require.Empty(t, left.Handles, "they have no tag of the run in EC2")
	require.NoError(t, l.client.DeleteLeftover(t.Context(), left))
	left, err = l.client.Leftover(t.Context(), of[0].Cluster, run)
	require.NoError(t, err)
	require.True(t, left.Empty())
	for _, v := range of {
		require.Empty(t, l.disks.Zone(v.Volume))
	}
}

// The stores of a target of TiDB Operator 1.x start on what was filled.
func TestBindVolume_FilledClaim_IsThePods(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src"), RaftLogVolume: true})
	pods := l.awaitReady(t, from, 3)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), must(l.client.Cluster(t.Context(), from)).Object,
		kube.Target{Name: target, Run: run}))
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	volumes := l.filled(t, l.restored(pods, target, "us-west-2b"))
	var early []string
	require.NoError(t, l.faults.Add(fault.Rule{
		Point: "kube.create.persistentvolumeclaims", Position: fault.Slow, Times: len(volumes), Do: func() {
			for _, pv := range l.server.List("persistentvolumes", "") {
				uid, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "uid")
				phase, _, _ := unstructured.NestedString(pv.Object, "status", "phase")
				if uid == "" && phase != string(corev1.VolumeAvailable) {
					early = append(early, pv.GetName()+" is "+phase)
				}
			}
		},
	}))
	for range 2 {
		for _, v := range volumes {
			require.NoError(t, l.client.BindVolume(t.Context(), v))
		}
	}
	require.Empty(t, l.faults.Unreached())
	require.Empty(t, early, "the real binder leaves a claim Pending until its next sync, 15 s later")
	require.NoError(t, l.client.StartTiKV(t.Context(), target, volumes...))
	l.awaitReady(t, target, 3)
	l.taken(t, volumes, func() { require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false)) })
}

// With TiDB Operator 2.x the claims of the target are there beside those that are filled, so a quota must have both.
func TestTarget2_DryRun_QuotaForClaimsThatAreFilledToo(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	n := len(r.volumes)
	r.limit(t, "small", map[string]any{}, fields(fmt.Sprintf("persistentvolumeclaims=%d", 2*n-1)), nil)
	require.NoError(t, r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
	for i := range r.volumes {
		r.volumes[i].Filled = &kube.FilledClaim{Driver: "ebs.csi.aws.com", Class: "ebs-sc"}
	}
	err := r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false)
	require.ErrorContains(t, err, fmt.Sprintf("the restore needs %d of persistentvolumeclaims", 2*n))
	r.limit(t, "small", map[string]any{}, fields(fmt.Sprintf("persistentvolumeclaims=%d", 2*n)), nil)
	require.NoError(t, r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
}

// Those of TiDB Operator 2.x do, and not before they are started.
func TestBindVolume_FilledClaim_IsThePodsOfOperator2(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	r.create(t)
	r.volumes = r.filled(t, r.volumes)
	r.start(t)
	r.taken(t, r.volumes, func() { require.NoError(t, r.client.DeleteCluster(t.Context(), r.to.Name, run, false)) })
}
