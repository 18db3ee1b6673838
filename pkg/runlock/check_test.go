package runlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestCheck_Ours_LooksOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := &fault.Plan{}
		l := acquire(t, objstoretest.NewMemory(plan), first)
		before := plan.Calls("s3.GetObject")
		for range 100 {
			require.NoError(t, l.Check(t.Context()))
		}
		require.Equal(t, before, plan.Calls("s3.GetObject"), "it was taken a moment ago")
		pass(10 * time.Second)
		for range 100 {
			require.NoError(t, l.Check(t.Context()))
		}
		require.Equal(t, before+1, plan.Calls("s3.GetObject"))
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, failure.Conflict, failure.KindOf(l.Check(t.Context())), "it was given back")
	})
}

// The lease has not run out by our clock: a person who took us for dead broke the lock.
func TestCheck_TakenOverMeanwhile_IsConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l := acquire(t, store, first)
		require.NoError(t, runlock.Break(t.Context(), store, prod, l.Epoch()))
		pass(3 * time.Second)
		err := l.Check(t.Context())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "released by somebody else")
		acquire(t, store, other)
		err = l.Check(t.Context())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "taken over by run run-2")
	})
}

func TestCheck_StoreAway_TheLeaseCountsWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, position := range []fault.Position{fault.Before, fault.Stall} {
		synctest.Test(t, func(t *testing.T) {
			store, plan := faulty(t)
			l := acquire(t, store, first)
			require.NoError(t, plan.Add(fault.Rule{Point: "s3.*", Position: position, Times: -1}))
			pass(ttl / 2)
			require.NoError(t, l.Check(t.Context()))
			asked := plan.Calls("s3.GetObject")
			require.NoError(t, l.Check(t.Context()))
			require.Equal(t, asked, plan.Calls("s3.GetObject"), "not every call waits for a look that fails")
			pass(ttl)
			err := l.Check(t.Context())
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), "object storage")
		})
	}
}

func TestCheck_NoLock_IsConflict(t *testing.T) {
	t.Parallel()
	var none *runlock.Kept
	require.Equal(t, failure.Conflict, failure.KindOf(none.Check(t.Context())))
}
