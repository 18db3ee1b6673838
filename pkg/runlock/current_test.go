package runlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Without a renewal the lock counts for less time than others need to take it over, by this process's own clock.
func TestFence_Current_EndsBeforeTheLockCanBeTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := &fault.Plan{}
		f := runlock.NewFence(objstoretest.NewMemory(plan), prod, first)
		require.NoError(t, f.Take(t.Context(), 10*time.Minute, runlock.Notify{Lost: func(error) {}}))
		defer func() { require.NoError(t, f.Release(t.Context())) }()
		pass(time.Hour)
		require.NoError(t, f.Current(), "it is renewed")
		require.NoError(t, plan.Add(fault.Rule{Point: "s3.*", Position: fault.Before, Times: -1}))
		pass(25 * time.Second)
		require.NoError(t, f.Current())
		pass(30 * time.Second)
		asked := plan.Calls("s3.GetObject")
		err := f.Current()
		require.Equal(t, asked, plan.Calls("s3.GetObject"), "it sends no request")
		require.Equal(t, failure.Conflict, failure.KindOf(err), "a minute without a renewal gives the lock to others")
		require.NoError(t, f.Loss(), "the next renewal may find that no other run came")
		plan.Clear()
		pass(time.Minute)
		require.NoError(t, f.Current(), "it was renewed since")
	})
}

func TestFence_Current_NotTakenOrLost_IsConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		require.Equal(t, failure.Conflict, failure.KindOf(runlock.NewFence(store, prod, first).Current()))
		f := take(t, store, first)
		require.NoError(t, f.Current())
		f.Lose(failure.New(failure.Conflict, "", "", "seen elsewhere"))
		require.ErrorContains(t, f.Current(), "seen elsewhere")
	})
}

// Only another owner is a replacement: not a person who broke the lock, and not a storage that does not answer.
func TestFence_Holder_ReplacedByAnotherOwnerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := &fault.Plan{}
		store := objstoretest.NewMemory(plan)
		f := take(t, store, first)
		require.Equal(t, fenced.HolderThis, f.Holder(t.Context()))
		require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
		require.Equal(t, fenced.HolderThis, f.Holder(t.Context()), "it was broken, and no run has it")
		again := acquire(t, store, first)
		require.Equal(t, fenced.HolderSameRun, f.Holder(t.Context()), "another process of the same run")
		require.NoError(t, plan.Add(fault.Rule{Point: "s3.GetObject", Position: fault.Before, Times: -1}))
		require.Equal(t, fenced.HolderUnknown, f.Holder(t.Context()), "it cannot be read")
		plan.Clear()
		require.NoError(t, again.Release(t.Context()))
	})
}

// recheck is how the engine asks before each call.
func recheck(ctx context.Context, f *runlock.Fence) error {
	if f.Current() == nil {
		return nil
	}
	return f.Check(ctx)
}

// A process that is awake makes no request before each call. One that was suspended asks; one that is cut off from object
// storage waits for it, as another run may have the lock by then.
func TestFence_CurrentThenCheck_AsksOnlyAfterASuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		cut := &cutOff{Store: store}
		f := runlock.NewFence(cut, prod, first)
		require.NoError(t, f.Take(t.Context(), long, ignore()))
		asked := cut.reads.Load()
		for range 100 {
			pass(time.Second)
			require.NoError(t, recheck(t.Context(), f))
		}
		require.Equal(t, asked, cut.reads.Load(), "the lock is not read")
		cut.away.Store(true)
		start := time.Now()
		time.AfterFunc(5*time.Minute, func() { cut.away.Store(false) })
		pass(time.Minute)
		require.NoError(t, recheck(t.Context(), f))
		require.GreaterOrEqual(t, time.Since(start), 5*time.Minute)
		require.NoError(t, f.Release(t.Context()))

		mine := &asleep{Store: store}
		f = runlock.NewFence(mine, prod, first)
		require.NoError(t, f.Take(t.Context(), long, ignore()))
		pass(time.Minute)
		wake := make(chan struct{})
		mine.hold.Store(&wake) // the renewal that is under way is answered when the process wakes up
		pass(30 * time.Second)
		next, err := runlock.Take(t.Context(), store, prod, other, long, ignore())
		require.NoError(t, err)
		require.ErrorContains(t, recheck(t.Context(), f), "taken over by run run-2")
		require.Error(t, f.Loss())
		close(wake)
		require.NoError(t, next.Release(t.Context()))
		require.NoError(t, f.Release(t.Context()))
	})
}
