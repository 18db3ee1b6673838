package tikv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestImportMode_IsTheStoresOwn(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 20*time.Second)
	for _, running := range []bool{false, true, false} {
		c.store.SetImportRunning(running)
		mode, err := c.client.ImportMode(ctx, c.store.Addr())
		require.NoError(t, err)
		require.Equal(t, running, mode)
	}
	c.store.SetImportRunning(true)
	point := fmt.Sprintf("tikv.%d.GetMode", c.store.ID())
	require.NoError(t, c.faults.Add(fault.Rule{Point: point, Code: "Unavailable"}))
	_, err := c.client.ImportMode(ctx, c.store.Addr())
	require.ErrorContains(t, err, c.store.Addr(), "no failed question is taken for an answer")
	require.NoError(t, c.faults.Add(fault.Rule{Point: point, Code: "Unimplemented"}))
	mode, err := c.client.ImportMode(ctx, c.store.Addr())
	require.NoError(t, err, "a TiKV without the call is not in import mode as far as is known")
	require.False(t, mode)
}
