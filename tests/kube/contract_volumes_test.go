package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
)

// bound waits until all claims and the run's volumes are bound to each other.
func (s system) bound(t *testing.T, count int) {
	t.Helper()
	eventually(t, "claims and volumes are bound", func() bool {
		for _, pvc := range s.claims(t) {
			if pvc.Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		for _, pv := range s.volumes(t) {
			if pv.Status.Phase != corev1.VolumeBound {
				return false
			}
		}
		return len(s.claims(t)) == count && len(s.volumes(t)) == count
	})
}

func volumeIsBound(t *testing.T, s system) {
	v := s.volume(t, "dst", 2)
	for range 2 {
		require.NoError(t, s.client.BindVolume(t.Context(), v))
	}
	s.bound(t, 1)
	pvc, pv := s.claims(t)[0], s.volumes(t)[0]
	assert.Equal(t, "tikv-dst-tikv-2", pvc.Name)
	assert.Equal(t, pv.Name, pvc.Spec.VolumeName)
	assert.Equal(t, string(v.Volume), pv.Spec.CSI.VolumeHandle)
	assert.Equal(t, pvc.UID, pv.Spec.ClaimRef.UID)
	assert.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	assert.Equal(t, []string{string(v.Zone)}, pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values)
}

func volumeIsBoundAgain(t *testing.T, s system) {
	v := s.volume(t, "dst", 0)
	require.NoError(t, s.client.BindVolume(t.Context(), v))
	s.bound(t, 1)
	first := s.claims(t)[0]
	require.NoError(t, s.core.CoreV1().PersistentVolumeClaims(s.namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	eventually(t, "the volume is released", func() bool {
		return len(s.claims(t)) == 0 && s.volumes(t)[0].Status.Phase == corev1.VolumeReleased
	})
	require.NoError(t, s.client.BindVolume(t.Context(), v))
	s.bound(t, 1)
	require.NotEqual(t, first.UID, s.volumes(t)[0].Spec.ClaimRef.UID)
}

func volumeOfAnotherRun(t *testing.T, s system) {
	v := s.volume(t, "dst", 0)
	require.NoError(t, s.client.BindVolume(t.Context(), v))
	another := v
	another.Run += "-2"
	err := s.client.BindVolume(t.Context(), another)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.NoError(t, s.client.DeleteRestored(t.Context(), s.name("dst"), another.Run))
	require.Len(t, s.claims(t), 1)
}

func restoredIsDeleted(t *testing.T, s system) {
	for i := range 2 {
		require.NoError(t, s.client.BindVolume(t.Context(), s.volume(t, "dst", i)))
	}
	other := s
	other.run += "-2"
	require.NoError(t, other.client.BindVolume(t.Context(), other.volume(t, "other", 5)))
	eventually(t, "bound", func() bool {
		for _, pvc := range s.claims(t) {
			if pvc.Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		return len(s.claims(t)) == 3
	})
	require.NoError(t, s.client.DeleteRestored(t.Context(), s.name("dst"), s.run))
	eventually(t, "the run's are gone", func() bool { return len(s.volumes(t)) == 0 && len(s.claims(t)) == 1 })
	require.Equal(t, "tikv-other-tikv-5", s.claims(t)[0].Name)
	require.Len(t, other.volumes(t), 1)
	require.NoError(t, other.client.DeleteRestored(t.Context(), other.name("other"), other.run))
	eventually(t, "all are gone", func() bool { return len(other.volumes(t)) == 0 && len(s.claims(t)) == 0 })
}
