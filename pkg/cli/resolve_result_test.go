package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// A version of TiKV that blocks stores needs a hand when one of them returns.
func TestWithoutWarning_TiKVBlocksStores_AdvisesToRestartTheOthers(t *testing.T) {
	t.Parallel()
	of := func(version string) string {
		return withoutWarning([]uint64{4}, &manifest.Manifest{Source: cluster.Topology{Version: version}})
	}
	require.Contains(t, of("8.5.7"), "if one of them returns, restart the TiKV pods of the other stores")
	require.NotContains(t, of("8.5.8"), "restart")
	require.NotContains(t, withoutWarning([]uint64{4}, nil), "restart")
}
