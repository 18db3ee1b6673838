package runlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Whoever only wants to know takes an owner for dead by the same watch as one who wants the lock, and writes nothing.
func TestObserve_OwnerWasKilled_IsDeadInAboutAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		found, err := runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.False(t, found.Held(time.Now()))
		dead, err := runlock.Acquire(t.Context(), store, prod, first, long)
		require.NoError(t, err)
		pass(25 * time.Second)
		start, watched := time.Now(), 0
		found, err = runlock.Observe(t.Context(), store, prod, func(*runlock.Record) { watched++ })
		require.NoError(t, err)
		require.True(t, found.Dead)
		require.False(t, found.Held(time.Now()))
		require.Equal(t, 1, watched)
		require.Less(t, time.Since(start), 70*time.Second)
		require.True(t, found.Same(t.Context(), store, prod))
		require.NoError(t, dead.Renew(t.Context()), "nothing was written")
		require.False(t, found.Same(t.Context(), store, prod))
	})
}

func TestObserve_OwnerRenewsLate_HoldsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l, err := runlock.Acquire(t.Context(), store, prod, first, long)
		require.NoError(t, err)
		pass(50 * time.Second)
		renewed := make(chan error, 1)
		time.AfterFunc(30*time.Second, func() { renewed <- l.Renew(t.Context()) })
		found, err := runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.NoError(t, <-renewed)
		require.True(t, found.Held(time.Now()))
	})
}

// A lock is freed only as it was when its owner was found to be dead: one that was suspended and renews has it still.
func TestFree_OnlyTheLockThatWasFoundDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l, err := runlock.Acquire(t.Context(), store, prod, first, long)
		require.NoError(t, err)
		pass(25 * time.Second)
		found, err := runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.NoError(t, l.Renew(t.Context()))
		err = found.Free(t.Context(), store)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
		require.NoError(t, l.Renew(t.Context()))

		pass(25 * time.Second)
		found, err = runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.NoError(t, found.Free(t.Context(), store))
		require.ErrorContains(t, l.Renew(t.Context()), "released by another process")
		found, err = runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.False(t, found.Held(time.Now()))
		require.NoError(t, found.Free(t.Context(), store))
	})
}
