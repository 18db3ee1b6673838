package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterUID_IsTheSameAtEachCallAndAnotherInEachCluster(t *testing.T) {
	t.Parallel()
	here, there := newServer(t), newServer(t)
	first, err := here.client.ClusterUID(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, first)
	again, err := here.client.ClusterUID(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := there.client.ClusterUID(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}
