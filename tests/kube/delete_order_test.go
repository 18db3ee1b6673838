package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The StatefulSet lives on for a while after the deletion of its TidbCluster was asked for: it would make claims again that
// are deleted meanwhile. So they go after it.
func TestStatefulSet_OutlivesItsCluster_NoClaimIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	const hold = "tisnap.io/test"
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	tc, err := s.clusters().Get(t.Context(), "dst", metav1.GetOptions{})
	require.NoError(t, err)
	tc.SetFinalizers([]string{hold})
	tc, err = s.clusters().Update(t.Context(), tc, metav1.UpdateOptions{})
	require.NoError(t, err)
	set := s.statefulSet("dst", 3)
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tc, tc.GroupVersionKind())}
	_, err = s.core.AppsV1().StatefulSets(s.namespace).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the claims are made", func() bool { return len(s.claims(t)) == 3 })

	done := make(chan error, 1)
	go func() { done <- s.client.DeleteCluster(t.Context(), s.name("dst"), s.run, false) }()
	eventually(t, "its deletion is asked for", func() bool {
		tc, err = s.clusters().Get(t.Context(), "dst", metav1.GetOptions{})
		require.NoError(t, err)
		return tc.GetDeletionTimestamp() != nil
	})
	for _, claim := range s.claims(t) {
		require.Nil(t, claim.DeletionTimestamp, "its StatefulSet would make it again")
	}
	tc.SetFinalizers(nil)
	_, err = s.clusters().Update(t.Context(), tc, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, <-done)
	sets, err := s.core.AppsV1().StatefulSets(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, sets.Items)
	require.Empty(t, s.pods(t, "app.kubernetes.io/instance=dst"))
	s.nothing(t)
}
