package kube_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// A token in a file is replaced by another, and the old one is refused from then on: the new one is read at once.
func TestOpen_TokenRotated_IsReadAgain(t *testing.T) {
	t.Parallel()
	server := kubetest.New(kubetest.Config{})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	require.NoError(t, server.WriteKubeconfig(path))
	gateway, err := kubetest.OpenGateway(t.Context(), path, dir)
	require.NoError(t, err)
	t.Cleanup(gateway.Close)
	client, err := kube.Open(kube.Config{Kubeconfig: gateway.Kubeconfig(), Patience: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(client.Close)

	missing := func() {
		_, err := client.Cluster(t.Context(), cluster.Name{Namespace: "tidb", Name: "none"})
		require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	}
	missing()
	gateway.Trouble(kubetest.Trouble{Kind: kubetest.TroubleRotated, Nth: 1})
	missing()
	require.Len(t, gateway.Calm(), 1)
}
