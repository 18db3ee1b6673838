package runlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestKeep_KeepsRunning_HoldsFarBeyondTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l := acquire(t, store, first)
		kept, stop := l.Keep(t.Context())
		pass(time.Hour)
		require.NoError(t, kept.Err())
		_, err := runlock.Acquire(t.Context(), store, prod, other, ttl)
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		stop()
		stop()
		require.ErrorIs(t, kept.Err(), context.Canceled)
		require.NoError(t, l.Release(t.Context()))
		acquire(t, store, other)
	})
}

func TestKeep_StoreFailsForAWhile_Continues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, plan := faulty(t, fault.Rule{Point: "s3.PutObject", Nth: 3, Times: 4})
		kept, stop := acquire(t, store, first).Keep(t.Context())
		defer stop()
		pass(10 * time.Minute)
		require.NoError(t, kept.Err())
		require.Empty(t, plan.Unreached())
	})
}

func TestKeep_StoreGone_EndsBeforeTheLeaseDoes(t *testing.T) {
	t.Parallel()
	for _, position := range []fault.Position{fault.Before, fault.Stall} {
		t.Run(fmt.Sprint(position), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, _ := faulty(t, fault.Rule{Point: "s3.*", Position: position, Nth: 3, Times: -1})
				start := time.Now()
				kept, stop := acquire(t, store, first).Keep(t.Context())
				defer stop()
				<-kept.Done()
				require.Less(t, time.Since(start), ttl)
				require.GreaterOrEqual(t, time.Since(start), ttl/2)
				require.Equal(t, failure.Conflict, failure.KindOf(context.Cause(kept)))
			})
		})
	}
}

func TestKeep_TakenOver_EndsWithTheNewOwnerAsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l := acquire(t, store, first)
		require.NoError(t, runlock.Break(t.Context(), store, prod, l.Epoch()))
		acquire(t, store, other)
		kept, stop := l.Keep(t.Context())
		defer stop()
		<-kept.Done()
		require.ErrorContains(t, context.Cause(kept), "taken over by run run-2")
	})
}

func TestKeep_CallerCancels_StopsWithoutRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l := acquire(t, store, first)
		ctx, cancel := context.WithCancel(t.Context())
		kept, stop := l.Keep(ctx)
		cancel()
		<-kept.Done()
		stop()
		r, _, err := runlock.Read(t.Context(), store, prod)
		require.NoError(t, err)
		require.True(t, r.Held(time.Now()))
	})
}
