package runlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// take makes a fence that holds the lock until the test ends.
func take(t *testing.T, store *objstoretest.Memory, owner runlock.Owner) *runlock.Fence {
	t.Helper()
	f := runlock.NewFence(store, prod, owner)
	require.NoError(t, f.Take(t.Context(), ttl, runlock.Notify{Lost: func(error) {}}))
	t.Cleanup(func() { _ = f.Release(t.Context()) })
	return f
}

func TestFence_Held_AsksOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := &fault.Plan{}
		f := take(t, objstoretest.NewMemory(plan), first)
		before := plan.Calls("s3.GetObject")
		for range 100 {
			require.NoError(t, f.Check(t.Context()))
		}
		require.Equal(t, before, plan.Calls("s3.GetObject"), "it was taken a moment ago")
		pass(10 * time.Second)
		for range 100 {
			require.NoError(t, f.Check(t.Context()))
		}
		require.Equal(t, before+1, plan.Calls("s3.GetObject"))
		require.NoError(t, f.Confirm(t.Context()))
		require.NoError(t, f.Release(t.Context()))
		require.Equal(t, failure.Conflict, failure.KindOf(f.Check(t.Context())), "it was released")
	})
}

// The lease has not ended by our clock: a person who took us for dead broke the lock.
func TestFence_LockBrokenMeanwhile_IsConflictFromThenOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		f := take(t, store, first)
		require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		require.NoError(t, f.Check(t.Context()), "it was taken a moment ago")
		pass(3 * time.Second)
		err := f.Check(t.Context())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "released by another process")
		require.Error(t, f.Loss())
		l := acquire(t, store, other)
		require.NoError(t, l.Release(t.Context()))
		require.ErrorContains(t, f.Check(t.Context()), "released by another process", "the first reason is kept")
	})
}

// Who undoes something asks the lock itself: another run may have it without this one having noticed.
// Before something is taken away the answer of a moment ago does not count.
func TestFence_Confirm_CountsNoEarlierAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		f := take(t, store, first)
		require.NoError(t, f.Confirm(t.Context()))
		require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		require.NoError(t, f.Check(t.Context()), "it was taken a moment ago")
		err := f.Confirm(t.Context())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "released by another process")
	})
}

func TestFence_TakenOver_IsReadFromTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		f := take(t, store, first)
		require.Equal(t, fenced.HolderThis, f.Holder(t.Context()), "no other run has had it")
		require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		l := acquire(t, store, other)
		require.NoError(t, f.Loss(), "not noticed yet")
		require.Error(t, f.Confirm(t.Context()))
		require.Error(t, f.Loss())
		require.ErrorContains(t, f.Check(t.Context()), "taken over by run run-2")
		require.Equal(t, fenced.HolderOtherRun, f.Holder(t.Context()), "the other run is at work")
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, fenced.HolderEndedRun, f.Holder(t.Context()))
		require.Error(t, f.Confirm(t.Context()), "but a loss stays noted")
		never := runlock.NewFence(store, prod, first)
		require.ErrorContains(t, never.Confirm(t.Context()), "run-2", "a fence without a lock has lost to any other run")
	})
}

// The same run continued by another process is another owner: the process that was suspended touches nothing more.
func TestFence_AnotherProcessOfTheRunTookOver_IsReadFromTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		suspended := take(t, store, first)
		require.NoError(t, suspended.Confirm(t.Context()))
		require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		now := take(t, store, first)
		require.Error(t, suspended.Confirm(t.Context()))
		require.NoError(t, now.Confirm(t.Context()))
	})
}

func TestFence_StoreAway_TheLeaseCountsWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, position := range []fault.Position{fault.Before, fault.Stall} {
		t.Run(fmt.Sprint(position), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, plan := faulty(t)
				f := take(t, store, first)
				require.NoError(t, plan.Add(fault.Rule{Point: "s3.*", Position: position, Times: -1}))
				pass(ttl / 4)
				require.NoError(t, f.Check(t.Context()))
				asked := plan.Calls("s3.GetObject")
				require.NoError(t, f.Check(t.Context()))
				require.Equal(t, asked, plan.Calls("s3.GetObject"), "not every call waits for a check that times out")
				require.NoError(t, f.Confirm(within(t, time.Second)), "no other run can have taken it yet")
				pass(ttl)
				err := f.Check(t.Context())
				require.Equal(t, failure.Conflict, failure.KindOf(err))
				require.Contains(t, failure.HintOf(err), "object storage")
				plan.Clear()
			})
		})
	}
}

// A run that was suspended, or cut off, for so long that its lock may be another's deletes nothing on a guess.
func TestFence_Unreadable_MayBeTakenOnceItWasNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, plan := faulty(t)
		f := runlock.NewFence(store, prod, first)
		require.NoError(t, f.Take(t.Context(), long, ignore()))
		pass(time.Minute)
		require.NoError(t, plan.Add(fault.Rule{Point: "s3.*", Times: -1}))
		pass(25 * time.Second)
		require.NoError(t, f.Confirm(t.Context()), "it was renewed a moment ago")
		pass(30 * time.Second)
		require.Error(t, f.Confirm(t.Context()))
		plan.Clear()
		require.ErrorContains(t, f.Check(t.Context()), "another run may have it", "a loss stays noted")
		require.NoError(t, f.Release(t.Context()))
	})
}

// A lock that a person broke, or whose object is gone, is lost to whoever undoes, as it is to Check; one that the run has
// released itself is not.
func TestFence_Confirm_ReleasedOrDeleted_IsLost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		meanwhile func(t *testing.T, store *objstoretest.Memory, f *runlock.Fence)
		want      string
	}{
		"broken": {func(t *testing.T, store *objstoretest.Memory, _ *runlock.Fence) {
			require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		}, "released by another process"},
		"deleted": {func(t *testing.T, store *objstoretest.Memory, _ *runlock.Fence) {
			require.NoError(t, store.Delete(t.Context(), manifest.LockKey(prod)))
		}, "the lock's object was deleted"},
		"released by itself": {func(t *testing.T, _ *objstoretest.Memory, f *runlock.Fence) {
			require.NoError(t, f.Release(t.Context()))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			f := take(t, store, first)
			row.meanwhile(t, store, f)
			require.Equal(t, row.want != "", f.Confirm(t.Context()) != nil)
			if row.want != "" {
				require.ErrorContains(t, f.Loss(), row.want)
			}
		})
	}
}

func TestFence_LossSeenElsewhere_IsNotedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := take(t, objstoretest.NewMemory(nil), first)
		f.Lose(failure.New(failure.Conflict, "keep leaders", "store 1", "another run recovers it"))
		f.Lose(failure.New(failure.Conflict, "keep leaders", "store 2", "another run recovers it"))
		require.ErrorContains(t, f.Check(t.Context()), "store 1")
		require.Error(t, f.Confirm(t.Context()))
	})
}

func TestFence_NoLock_IsConflict(t *testing.T) {
	t.Parallel()
	f := runlock.NewFence(objstoretest.NewMemory(nil), prod, first)
	require.Equal(t, failure.Conflict, failure.KindOf(f.Check(t.Context())))
	require.NoError(t, f.Release(t.Context()))
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
