package runlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

func TestTake_ContextEnds_StaysHeldUntilReleaseAndIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		ctx, cancel := context.WithCancel(t.Context())
		h, err := runlock.Take(ctx, store, prod, first, ttl, runlock.Notify{Lost: func(reason error) { t.Errorf("lost: %v", reason) }})
		require.NoError(t, err)
		cancel()
		pass(time.Hour)
		_, err = runlock.Acquire(t.Context(), store, prod, other, ttl)
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.NoError(t, h.Release(ctx), "a cancelled run frees its lock too")
		acquire(t, store, other)
	})
}

func TestTake_LockIsBroken_ReportsTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		lost := make(chan error, 1)
		h, err := runlock.Take(t.Context(), store, prod, first, ttl, runlock.Notify{Lost: func(reason error) { lost <- reason }})
		require.NoError(t, err)
		record, _, err := runlock.Read(t.Context(), store, prod)
		require.NoError(t, err)
		require.NoError(t, runlock.Break(t.Context(), store, prod, record.Epoch))
		require.Equal(t, failure.Conflict, failure.KindOf(<-lost))
		require.NoError(t, h.Release(t.Context()), "a lock that was lost is left alone")
	})
}

func TestRelease_OfNothing_Succeeds(t *testing.T) {
	t.Parallel()
	var h *runlock.HeldLock
	require.NoError(t, h.Release(t.Context()))
}

// A lock that cannot be read is deleted by hand, as its error advises: the run that is continued was its owner before.
func TestTake_LockDeleted_EpochIsAboveTheJournals(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	for after, want := range map[int64]int64{0: 1, 7: 8} {
		held, err := runlock.Take(t.Context(), store, prod, first, ttl, runlock.Notify{After: after, Lost: func(error) {}})
		require.NoError(t, err)
		require.Equal(t, want, held.Epoch())
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, store.Delete(t.Context(), manifest.LockKey(prod)))
	}
	acquire(t, store, other)
}
