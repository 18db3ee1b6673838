package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// tried is a dry run of a restore of one store.
func (s system) tried(t *testing.T) error {
	t.Helper()
	return s.client.DryRun(t.Context(), source(t), s.target("dst"), []kube.RestoredVolume{s.volume(t, "dst", 0)}, false)
}

func dryRunMakesNothing(t *testing.T, s system) {
	require.NoError(t, s.tried(t))
	s.nothing(t)
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	require.NoError(t, s.client.DryRun(t.Context(), source(t), s.target("dst"), []kube.RestoredVolume{s.volume(t, "dst", 0)}, true))
	require.Empty(t, s.volumes(t))
}

func dryRunFindsClaims(t *testing.T, s system) {
	left := s
	left.run += "-2"
	require.NoError(t, s.client.BindVolume(t.Context(), left.volume(t, "dst", 7)))
	err := s.tried(t)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "tikv-dst-tikv-7")
	require.Empty(t, s.volumes(t))
}

func dryRunNamesStorageClass(t *testing.T, s system) {
	missing := []byte(strings.ReplaceAll(string(source(t)), `"`+class+`"`, `"no-class"`))
	err := s.client.DryRun(t.Context(), missing, s.target("dst"), nil, false)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "no-class")
	s.nothing(t)
}

func dryRunReportsQuota(t *testing.T, s system) {
	s.limitClaims(t)
	eventually(t, "the quota is kept", func() bool { return s.tried(t) != nil })
	err := s.tried(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "ResourceQuota small: the restore needs 2 of persistentvolumeclaims, and 0 of 0 are left")
	s.nothing(t)
}

// limitClaims makes a quota that no claim fits into.
func (s system) limitClaims(t *testing.T) {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: quantity.MustParse("0")}},
	}
	_, err := s.core.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
}

func dryRunReportsPolicy(t *testing.T, s system) {
	s.forbidClusters(t)
	eventually(t, "the policy is in force", func() bool { return s.tried(t) != nil })
	err := s.tried(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no clusters here")
	s.nothing(t)
}

func dryRunReportsTerminating(t *testing.T, s system) {
	s.terminate(t)
	eventually(t, "the namespace ends", func() bool { return s.tried(t) != nil })
	err := s.tried(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "because it is being terminated")
}

// terminate has the namespace end, which something in it holds back.
func (s system) terminate(t *testing.T) {
	t.Helper()
	if s.standIn != nil {
		require.NoError(t, s.standIn.Put(kubetest.NewNamespace(s.namespace, "Terminating")))
		return
	}
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	_, err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"tisnap.io/test"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.core.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
}

func requireReason(t *testing.T, want metav1.StatusReason, err error) {
	t.Helper()
	require.Equal(t, want, apierrors.ReasonForError(err), "%v", err)
}
