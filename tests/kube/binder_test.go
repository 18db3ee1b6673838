package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// A claim that comes before its volume is not bound until the binder looks at everything again, which it does each 15 s, and
// here never; a restore makes it once the volume is Available, and all of its claims are bound without that.
func TestBinder_ClaimBeforeItsVolume_WaitsForTheSync(t *testing.T) {
	t.Parallel()
	s, _ := openOwn(t, 24*time.Hour)
	s.client = adapter(t, kube.Config{Kubeconfig: s.kubeconfig, BindPatience: patience})
	all := s.many(t, 5, cluster.RoleData)
	require.NoError(t, s.bind(t, all[:3]))
	s.bound(t, 3)

	pv := s.volumes(t)[0].DeepCopy()
	early := s.claims(t)[0].DeepCopy()
	pv.ObjectMeta = metav1.ObjectMeta{Name: pv.Name + "-late", Annotations: pv.Annotations}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.namespace, Name: "early"}
	pv.Spec.CSI.VolumeHandle += "-late"
	early.ObjectMeta = metav1.ObjectMeta{Name: "early", Labels: early.Labels}
	early.Spec.VolumeName = pv.Name
	claims := s.core.CoreV1().PersistentVolumeClaims(s.namespace)
	early, err := claims.Create(t.Context(), early, metav1.CreateOptions{})
	require.NoError(t, err)
	// The binder takes one claim after the other: when a later one is bound, it has seen this one.
	require.NoError(t, s.bind(t, all[3:4]))
	s.eventuallyClaims(t, corev1.ClaimBound, 4)
	_, err = s.core.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the binder has seen the volume", func() bool {
		now, err := s.core.CoreV1().PersistentVolumes().Get(t.Context(), pv.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.Status.Phase == corev1.VolumeAvailable
	})
	require.NoError(t, s.bind(t, all[4:]))
	s.eventuallyClaims(t, corev1.ClaimBound, 5)
	now, err := claims.Get(t.Context(), early.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.ClaimPending, now.Status.Phase, "it is bound without the sync: restores need not wait for their volumes")
	touch := []byte(`{"metadata":{"annotations":{"test":"any change has the binder look at the claim"}}}`)
	_, err = claims.Patch(t.Context(), early.Name, types.MergePatchType, touch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.eventuallyClaims(t, corev1.ClaimBound, 6)
}

// eventuallyClaims waits until so many claims are in a phase.
func (s system) eventuallyClaims(t *testing.T, phase corev1.PersistentVolumeClaimPhase, count int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d claims are %s", count, phase), func() bool {
		return len(slices.DeleteFunc(s.claims(t), func(pvc corev1.PersistentVolumeClaim) bool { return pvc.Status.Phase != phase })) == count
	})
}

// A volume that is not Available in time keeps no restore: its claim is made before, and the binder's sync binds it.
func TestBinder_VolumeNotAvailableInTime_ClaimIsBoundByTheSync(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	s.client = adapter(t, kube.Config{Kubeconfig: s.kubeconfig, BindPatience: time.Nanosecond})
	const count = 5
	require.NoError(t, s.bind(t, s.many(t, count, cluster.RoleData)))
	began := time.Now()
	s.bound(t, count)
	t.Logf("%d claims that did not wait for their volumes were bound %v after the last was made", count, time.Since(began).Round(time.Millisecond))
}

// The largest clusters: 300 stores with four volumes each are tried and then made, and all are bound.
func TestBinder_ThreeHundredStoresOfFourVolumes_AreTriedAndBound(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	const stores = 300
	all := s.many(t, stores, cluster.RoleData, cluster.RoleRaftLog, cluster.RoleWAL, "mount:/var/lib/v3")
	began := time.Now()
	require.NoError(t, s.client.DryRun(t.Context(), source(t), s.target("dst"), all, false))
	s.nothing(t)
	t.Logf("dry run of %d volumes: %v", len(all), time.Since(began).Round(time.Millisecond))
	began = time.Now()
	require.NoError(t, s.bind(t, all))
	t.Logf("made: %v", time.Since(began).Round(time.Millisecond))
	eventually(t, "all are bound", func() bool {
		n := 0
		for _, pvc := range s.claims(t) {
			if pvc.Status.Phase == corev1.ClaimBound {
				n++
			}
		}
		return n == len(all)
	})
	t.Logf("bound: %v", time.Since(began).Round(time.Millisecond))
	require.NoError(t, s.client.DeleteRestored(t.Context(), s.name("dst"), s.run))
	eventually(t, "all are gone", func() bool { return len(s.claims(t)) == 0 && len(s.volumes(t)) == 0 })
}

// many are the volumes of a cluster of so many stores, each with a volume for each of the roles.
func (s system) many(t *testing.T, stores int, roles ...cluster.Role) []kube.RestoredVolume {
	t.Helper()
	var all []kube.RestoredVolume
	for j, role := range roles {
		first := s.volume(t, "dst", 0)
		claim := strings.Replace(string(first.Claim), `"name":"tikv-src-tikv-0"`, fmt.Sprintf(`"name":"tikv-v%d-src-tikv-0"`, j), 1)
		for i := range stores {
			v := first
			v.Ordinal, v.Role, v.MountPath = i, role, fmt.Sprintf("/var/lib/v%d", j)
			v.Claim, v.Volume = []byte(claim), cluster.VolumeID(fmt.Sprintf("%s-%d-%d", first.Volume, j, i))
			all = append(all, v)
		}
	}
	return all
}

// bind makes all of them, as a restore does.
func (s system) bind(t *testing.T, all []kube.RestoredVolume) error {
	t.Helper()
	return parallel.Each(t.Context(), 32, all, func(ctx context.Context, _ int, v kube.RestoredVolume) error { return s.client.BindVolume(ctx, v) })
}
