package kube_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
)

// The API server is killed and started again while volumes are bound: no answer is taken for a lasting one, and what was
// asked for is there once.
func TestAPIServerKilled_VolumesAreBoundAllTheSame(t *testing.T) {
	t.Parallel()
	needsPlane(t)
	built := os.Getenv(folder)
	own, err := plane.Start(plane.Config{Program: built + "/controlplane", CRDs: built + "/crds", Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	s := newSystem(t, own.Kubeconfig("admin"))
	_, err = s.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	client, err := kube.Open(kube.Config{Kubeconfig: s.kubeconfig}) // with the patience of a run
	require.NoError(t, err)
	t.Cleanup(client.Close)

	require.NoError(t, own.KillAPIServer())
	started := make(chan error, 1)
	go func() { started <- own.StartAPIServer(t.Context()) }()
	const count = 10
	refused := 0
	for i := range count {
		v := s.volume(t, "dst", i)
		eventually(t, "the volume is made", func() bool {
			err := client.BindVolume(t.Context(), v)
			if err != nil {
				refused++
				require.True(t, failure.Transient(err), "%v", err)
			}
			return err == nil
		})
	}
	require.NoError(t, <-started)
	require.NotZero(t, refused, "the server was away meanwhile")
	s.bound(t, count)
}
