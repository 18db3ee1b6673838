package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

// The API server is killed and started again while volumes are bound: no answer is taken for a lasting one, and what was
// asked for is there once.
func TestAPIServerKilled_VolumesAreBoundAllTheSame(t *testing.T) {
	t.Parallel()
	s, own := openOwn(t, 0)
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
