package preflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/preflight"
)

func TestCheckBlockedStores_VersionsWithTheFault_AreWarnedOf(t *testing.T) {
	t.Parallel()
	for version, blocks := range map[string]bool{
		"8.5.7": true, "v8.5.7": true, "8.5.7-20260701": true, "9.0.0-beta.2": true,
		"8.5.0": false, "8.5.6": false, "8.5.8": false, "8.5.70": false, "9.0.0": false, "": false,
	} {
		warning := preflight.CheckBlockedStores(version)
		require.Equal(t, blocks, warning != "", version)
		if blocks {
			require.Contains(t, warning, "TiKV "+version+", ")
			require.Contains(t, warning, "restart the TiKV pods one by one")
		}
	}
}
