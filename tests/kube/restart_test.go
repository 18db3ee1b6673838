package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

// The API server is killed, stays away for longer than a request's patience, and is started again while volumes are
// bound: no answer is taken for a lasting one, and what was asked for is there once.
func TestAPIServerKilled_VolumesAreBoundAllTheSame(t *testing.T) {
	t.Parallel()
	s, own := openOwn(t, 0)
	client, err := kube.Open(kube.Config{Kubeconfig: s.kubeconfig}) // with the patience of a run
	require.NoError(t, err)
	t.Cleanup(client.Close)
	const count = 10
	bind := func(v kube.RestoredVolume) bool {
		err := client.BindVolume(t.Context(), v)
		require.True(t, err == nil || failure.Transient(err), "%v", err)
		return err == nil
	}

	require.NoError(t, own.KillAPIServer())
	require.False(t, bind(s.volume(t, "dst", 0)), "the server is away")
	started := make(chan error, 1)
	go func() { started <- own.StartAPIServer(t.Context()) }()
	for i := range count {
		v := s.volume(t, "dst", i)
		eventually(t, "the volume is made", func() bool { return bind(v) })
	}
	require.NoError(t, <-started)
	s.bound(t, count)
}
