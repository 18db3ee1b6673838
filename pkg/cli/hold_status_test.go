package cli

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A person who looks learns what the next run would: the lock of a process that was killed is no run that is alive,
// long before it expires.
func TestLockOf_OwnerWasKilled_IsNotShownAsAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, name := objstoretest.NewMemory(nil), cluster.Name{Namespace: "tidb", Name: "prod"}
		watched := 0
		watching := func(*runlock.Record) { watched++ }
		free, err := lockOf(t.Context(), store, name, watching)
		require.NoError(t, err)
		require.Nil(t, free)

		held, err := runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: "r", Command: "backup"}, 10*time.Minute)
		require.NoError(t, err)
		shown, err := lockOf(t.Context(), store, name, watching)
		require.NoError(t, err)
		require.EqualValues(t, "r", shown.Run)
		require.Zero(t, watched, "it was renewed a moment ago")

		<-time.After(time.Minute) // by the bubble's clock
		start := time.Now()
		shown, err = lockOf(t.Context(), store, name, watching)
		require.NoError(t, err)
		require.Nil(t, shown)
		require.Equal(t, 1, watched)
		require.Less(t, time.Since(start), 2*time.Minute)

		require.NoError(t, held.Renew(t.Context()))
		shown, err = lockOf(t.Context(), store, name, watching)
		require.NoError(t, err)
		require.NotNil(t, shown, "it was only suspended")
	})
}
