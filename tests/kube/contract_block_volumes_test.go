package kube_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tisnap/tisnap/pkg/archive/claims"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// forClaims is what docs/archive.md names for `tisnap archive restore --to-claims`.
func forClaims() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "create", "update", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "list", "create", "update", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "update"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"get", "list"}},
	}
}

// restoresToClaims is the adapter of whoever restores to claims, in a namespace that takes pods which run as root.
func (s system) restoresToClaims(t *testing.T) *kube.Client {
	t.Helper()
	if s.standIn != nil {
		s.addNode(t)
		return s.client
	}
	s.enforce(t, "baseline")
	s.node(t, s.zone("a"))
	return s.as(t, forClaims())
}

func (s system) asksForVolumes(t *testing.T) *blockvolume.Claims {
	t.Helper()
	asks := s.restoresToClaims(t).BlockVolumes()
	asks.Interval = poll
	return asks
}

func (s system) blockVolume() blockvolume.Spec {
	return blockvolume.Spec{
		Run: s.run, Namespace: s.namespace, Name: blockvolume.NameOf(s.run, 4, "storage.data-dir"), Class: class, SizeGiB: 10,
		Labels: map[string]string{"tisnap.io/store": "4"},
	}
}

// provides makes the volume of a claim, of a class that retains it.
func (s system) provides(ctx context.Context, claim *corev1.PersistentVolumeClaim, mode corev1.PersistentVolumeMode) error {
	_, err := s.core.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: &mode,
			StorageClassName: *claim.Spec.StorageClassName, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + string(claim.UID)},
			},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// provided makes the volume of a claim that no pod is about to use, and returns its name.
func (s system) provided(t *testing.T, c blockvolume.Claim, mode corev1.PersistentVolumeMode) string {
	t.Helper()
	claim, err := s.core.CoreV1().PersistentVolumeClaims(c.Namespace).Get(t.Context(), c.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, s.provides(t.Context(), claim, mode))
	return "pvc-" + c.UID
}

func blockVolumeIsItsRuns(t *testing.T, s system) {
	asks := s.asksForVolumes(t)
	_, err := asks.Class(within(t), "")
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	found, err := asks.Class(within(t), class)
	require.NoError(t, err)
	require.Equal(t, class, found.Name)
	made, err := asks.Make(within(t), s.blockVolume())
	require.NoError(t, err)
	same, err := asks.Make(within(t), s.blockVolume())
	require.NoError(t, err)
	require.Equal(t, made, same)
	other := s.blockVolume()
	other.Run += "-2"
	_, err = asks.Make(within(t), other)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	_, err = asks.Bound(within(t), made)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)

	pv := s.provided(t, made, corev1.PersistentVolumeBlock)
	var bound blockvolume.Volume
	eventually(t, "it is bound", func() bool {
		bound, err = asks.Bound(within(t), made)
		return err == nil
	})
	require.Equal(t, pv+" ebs.csi.aws.com vol-"+made.UID, bound.Name+" "+bound.Driver+" "+bound.Handle)
	require.NoError(t, asks.Mark(within(t), made, "an archive"))
	again, err := asks.Make(within(t), s.blockVolume())
	require.NoError(t, err)
	require.Equal(t, "an archive", again.Filled)

	stranger := made
	stranger.UID = "another"
	require.NoError(t, asks.Remove(within(t), stranger))
	stranger = made
	stranger.Run = other.Run
	err = asks.Remove(within(t), stranger)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Len(t, s.claims(t), 1)
	s.drives(t)
	require.NoError(t, asks.Remove(within(t), made))
	require.Empty(t, s.claims(t))
	_, err = s.core.CoreV1().PersistentVolumes().Get(t.Context(), pv, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// forExchange is what a restore needs besides to have its pods mount what was filled.
func forExchange() []rbacv1.PolicyRule {
	return append(forClaims(), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"create", "delete"},
	})
}

// A filled volume becomes one with a file system, to which the claim of its pod is bound, and only that. It stays while
// that claim is there, and goes once it is gone.
func filledVolumeIsExchanged(t *testing.T, s system) {
	asks := s.restoresToClaims(t).BlockVolumes()
	if s.standIn == nil {
		asks = s.as(t, forExchange()).BlockVolumes()
	}
	asks.Interval = poll
	made, err := asks.Make(within(t), s.blockVolume())
	require.NoError(t, err)
	s.provided(t, made, corev1.PersistentVolumeBlock)
	eventually(t, "it is bound", func() bool { return asks.MarkVolume(within(t), made) == nil })
	require.NoError(t, asks.Mark(within(t), made, "an archive"))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "tikv-0", Namespace: s.namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "restored-" + s.namespace,
			StorageClassName: ptr.To(class), Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			},
		},
	}
	claims := s.core.CoreV1().PersistentVolumeClaims(s.namespace)
	claim, err = claims.Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: class,
			ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: claim.Name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{FSType: "ext4"}},
		},
	}
	pv, err := asks.Exchange(within(t), made, want)
	require.NoError(t, err)
	volumes := s.core.CoreV1().PersistentVolumes()
	eventually(t, "the binder has seen it", func() bool {
		now, err := volumes.Get(t.Context(), pv.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.VolumeReleased
	})
	_, err = asks.Free(within(t), pv)
	require.NoError(t, err)
	_, err = claims.Patch(t.Context(), claim.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"tisnap.io/volume":"there"}}}`), metav1.PatchOptions{}) // or at the next resync
	require.NoError(t, err)
	eventually(t, "its claim is bound", func() bool {
		now, err := claims.Get(t.Context(), claim.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.ClaimBound
	})
	pv, err = volumes.Get(t.Context(), pv.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "vol-"+made.UID+" ext4", pv.Spec.CSI.VolumeHandle+" "+pv.Spec.CSI.FSType)
	require.Equal(t, "ebs.csi.aws.com", pv.Annotations["pv.kubernetes.io/provisioned-by"])
	_, err = volumes.Get(t.Context(), "pvc-"+made.UID, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	err = asks.Remove(within(t), made)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	s.drives(t)
	require.NoError(t, claims.Delete(t.Context(), claim.Name, metav1.DeleteOptions{}))
	eventually(t, "the claim is gone", func() bool {
		left, err := asks.Left(within(t), s.run, s.namespace)
		return err == nil && len(left) == 1 && left[0].UID == made.UID
	})
	require.NoError(t, asks.Remove(within(t), made))
	_, err = volumes.Get(t.Context(), pv.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func fileSystemIsNotBound(t *testing.T, s system) {
	asks := s.asksForVolumes(t)
	made, err := asks.Make(within(t), s.blockVolume())
	require.NoError(t, err)
	pv := s.provided(t, made, corev1.PersistentVolumeFilesystem)
	eventually(t, "the binder has looked at it", func() bool {
		list, err := s.core.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=VolumeMismatch"})
		require.NoError(t, err)
		return len(list.Items) > 0 && strings.Contains(list.Items[0].Message, "incompatible volumeMode")
	})
	_, err = asks.Bound(within(t), made)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.NoError(t, s.core.CoreV1().PersistentVolumes().Delete(t.Context(), pv, metav1.DeleteOptions{}))
}

// The volumes of an archive are filled by the pod of a Job, also if its node is drained. Then no pod has them.
func volumesAreFilled(t *testing.T, s system) {
	client := s.restoresToClaims(t)
	s.drives(t)
	s.runJobs(t, func(ctx context.Context, pod *corev1.Pod, _, n int) int32 {
		if n == 1 {
			return s.evicted(ctx, t, pod)
		}
		return 0
	})
	f := &claims.Filler{Claims: client.BlockVolumes(), Jobs: client.Jobs(), Options: claims.Options{
		Run: s.run, Archive: "an archive", Namespace: s.namespace, Class: class, Workers: 1, Final: []int{7},
		Pod: workers.Spec{
			Image: "tisnap:v1", Root: true, NodeSelector: map[string]string{"tisnap.io/test": s.namespace},
			Args: []string{"--repo", "s3://archive/prod"}, CPU: "2", Memory: "1Gi", MemoryLimit: "1Gi",
		},
	}}
	f.Claims.Interval, f.Jobs.Interval = poll, poll
	archive := &format.Archive{Stores: []format.Store{
		{ID: 4, Volumes: []format.Volume{{Role: "data", Size: 1 << 30}, {Role: "raft-log", Size: 1}}},
	}}
	items, err := f.Fill(within(t), archive)
	require.NoError(t, err)
	require.Len(t, items, 2)
	for _, one := range items {
		require.NoError(t, one.Err)
		require.Equal(t, "vol-"+one.Claim.UID, one.Bound.Handle)
		require.Equal(t, "an archive", one.Claim.Filled)
	}
	require.Empty(t, s.pods(t, ""))
	same, err := f.Fill(within(t), archive)
	require.NoError(t, err)
	require.Equal(t, items, same)
	removed, err := f.Remove(within(t))
	require.NoError(t, err)
	require.Len(t, removed, 2)
	require.Empty(t, s.claims(t))
}

// A Job whose command died before it was allowed again has no pod; the same command has it made.
func jobWaitsToBeAllowed(t *testing.T, s system) {
	jobs := s.restoresToClaims(t).Jobs()
	jobs.Interval = poll
	s.runJobs(t, func(context.Context, *corev1.Pod, int, int) int32 { return 0 })
	spec := s.fills()
	spec.Devices = nil
	ctx, cancel := context.WithCancel(within(t))
	asked := 0
	_, err := jobs.MakeIf(ctx, spec, func(context.Context) error {
		if asked++; asked == 2 {
			cancel()
		}
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	other := spec
	other.Name = "tisnap-fill-5"
	for _, one := range []workers.Spec{other, spec} {
		require.Empty(t, s.pods(t, batchv1.JobNameLabel+"="+spec.Name))
		made, err := jobs.MakeIf(within(t), one, func(context.Context) error { return nil })
		require.NoError(t, err)
		require.NoError(t, jobs.Wait(within(t), made, nil))
	}
	require.Len(t, s.pods(t, batchv1.JobNameLabel+"="+spec.Name), 1)
}
