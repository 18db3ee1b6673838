package runlock_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// long is the lease of real runs.
const long = 10 * time.Minute

func ignore() runlock.Notify { return runlock.Notify{Lost: func(error) {}} }

// The run that held the lock was killed: another one has it in about a minute, not when its lease has ended, and whether it
// was renewed a moment ago or long ago, by whatever clock.
func TestTake_OwnerWasKilled_TakesOverInAboutAMinute(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"a moment ago": time.Second, "long ago": 11 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := objstoretest.NewMemory(nil)
				dead, err := runlock.Acquire(t.Context(), store, prod, first, long)
				require.NoError(t, err)
				pass(later)
				start, watched := time.Now(), ""
				h, err := runlock.Take(t.Context(), store, prod, other, long, runlock.Notify{
					Lost: func(error) {}, Watching: func(r *runlock.Record) { watched = r.Watching() },
				})
				require.NoError(t, err)
				require.Contains(t, watched, "run run-1")
				require.Contains(t, watched, "within 1m0s from now")
				require.Less(t, time.Since(start), 75*time.Second)
				require.GreaterOrEqual(t, time.Since(start), time.Minute, "three renewals are missed while it is watched")
				require.ErrorContains(t, dead.Renew(t.Context()), "taken over by run run-2")
				require.NoError(t, h.Release(t.Context()))
			})
		})
	}
}

// Who wants the lock of a live run is refused as soon as that renews, though its clock is eleven minutes behind, and the
// lock stays.
func TestTake_OwnerIsAlive_IsConflictWithinARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		behind := &slowClock{Store: store, by: 11 * time.Minute}
		h, err := runlock.Take(t.Context(), behind, prod, first, long, runlock.Notify{Lost: func(reason error) { t.Errorf("lost: %v", reason) }})
		require.NoError(t, err)
		pass(time.Second)
		start := time.Now()
		_, err = runlock.Take(t.Context(), store, prod, other, long, ignore())
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "held by run run-1")
		require.Contains(t, failure.HintOf(err), "it is alive")
		require.LessOrEqual(t, time.Since(start), 25*time.Second)
		found, err := runlock.Observe(t.Context(), store, prod, nil)
		require.NoError(t, err)
		require.True(t, found.Held(time.Now()), "nor is it dead for gc")
		require.NoError(t, h.Release(t.Context()))
	})
}

// How long a lock is watched is up to the caller, and a run that ends meanwhile is waited for.
func TestTake_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l, err := runlock.Acquire(t.Context(), store, prod, first, long)
		require.NoError(t, err)
		refused := func(wait, after time.Duration) {
			start := time.Now()
			_, err := runlock.Take(t.Context(), store, prod, other, long, runlock.Notify{Lost: func(error) {}, Wait: wait})
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "held by run run-1")
			require.Contains(t, failure.HintOf(err), "--lock-wait 1m30s")
			require.Equal(t, after, time.Since(start))
		}
		refused(runlock.NoWait, 0)
		refused(30*time.Second, 30*time.Second)
		time.AfterFunc(10*time.Second, func() { _ = l.Release(t.Context()) })
		h, err := runlock.Take(t.Context(), store, prod, other, long, ignore())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
	})
}

// A run that renews late is alive: it keeps its lock, and the other one is refused as soon as that is seen.
func TestTake_OwnerRenewsLate_IsConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := &fault.Plan{}
		store := objstoretest.NewMemory(plan)
		h, err := runlock.Take(t.Context(), store, prod, first, long, runlock.Notify{Lost: func(reason error) { t.Errorf("lost: %v", reason) }})
		require.NoError(t, err)
		require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Position: fault.Before, Times: 2}))
		pass(25 * time.Second) // renewals fail at 20 s and 24 s
		start := time.Now()
		_, err = runlock.Take(t.Context(), store, prod, other, long, ignore())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "held by run run-1")
		require.Greater(t, time.Since(start), time.Second, "it was watched")
		require.Less(t, time.Since(start), 20*time.Second)
		require.NoError(t, h.Release(t.Context()))
	})
}

// An owner that cannot reach object storage, while others can, changes nothing from before the time at which they take
// its lock over. When it reaches it again it learns what happened.
func TestFence_OwnerCutOff_ChangesNothingOnceItsLockMayBeTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		cut := &cutOff{Store: store}
		f := runlock.NewFence(cut, prod, first)
		require.NoError(t, f.Take(t.Context(), long, ignore()))
		cut.away.Store(true)
		pass(45 * time.Second)
		require.NoError(t, f.Check(t.Context()), "no other run can have it yet")
		pass(7 * time.Second)
		answer := make(chan error, 1)
		go func() { answer <- f.Check(t.Context()) }()
		h, err := runlock.Take(t.Context(), store, prod, other, long, ignore())
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, answer, "it waits for object storage")
		cut.away.Store(false)
		require.ErrorContains(t, <-answer, "taken over by run run-2")
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, f.Release(t.Context()))
	})
}

// While object storage is unreachable for all, no other run can take the lock: the owner waits, and continues.
func TestFence_StoreAwayForMinutes_Waits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cut := &cutOff{Store: objstoretest.NewMemory(nil)}
		f := runlock.NewFence(cut, prod, first)
		require.NoError(t, f.Take(t.Context(), long, runlock.Notify{Lost: func(reason error) { t.Errorf("lost: %v", reason) }}))
		cut.away.Store(true)
		start := time.Now()
		time.AfterFunc(8*time.Minute, func() { cut.away.Store(false) })
		pass(time.Minute)
		require.NoError(t, f.Check(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 8*time.Minute)
		require.NoError(t, f.Release(t.Context()))
	})
}

// cutOff is a store that one run cannot reach for a while.
type cutOff struct {
	objstore.Store
	away  atomic.Bool
	reads atomic.Int64
}

func (c *cutOff) err() error {
	if c.away.Load() {
		return failure.New(failure.Unknown, "reach store", "", "no route to host")
	}
	return nil
}

func (c *cutOff) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	c.reads.Add(1)
	if err := c.err(); err != nil {
		return nil, "", err
	}
	return c.Store.Get(ctx, key)
}

func (c *cutOff) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if err := c.err(); err != nil {
		return "", err
	}
	return c.Store.Create(ctx, key, body)
}

func (c *cutOff) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if err := c.err(); err != nil {
		return "", err
	}
	return c.Store.Replace(ctx, key, body, old)
}

// slowClock is the store of a machine whose clock is behind.
type slowClock struct {
	objstore.Store
	by time.Duration
}

func (c *slowClock) behind(body []byte) []byte {
	var r runlock.Record
	if json.Unmarshal(body, &r) != nil {
		return body
	}
	r.AcquiredAt, r.RenewedAt, r.ExpiresAt = r.AcquiredAt.Add(-c.by), r.RenewedAt.Add(-c.by), r.ExpiresAt.Add(-c.by)
	out, _ := json.Marshal(r)
	return out
}

func (c *slowClock) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	return c.Store.Create(ctx, key, c.behind(body))
}

func (c *slowClock) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	return c.Store.Replace(ctx, key, c.behind(body), old)
}
