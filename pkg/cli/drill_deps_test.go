package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// The same command plans a drill again while what a dead process of it left is still there.
func TestUncaged_WhatADeadDrillLeft_IsNotThere(t *testing.T) {
	t.Parallel()
	_, err := uncaged{}.Cluster(t.Context(), cluster.Name{Namespace: "tisnap-drill-1", Name: "prod"})
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	claims, err := uncaged{}.Claims(t.Context(), cluster.Name{})
	require.NoError(t, err)
	require.Empty(t, claims)
}
