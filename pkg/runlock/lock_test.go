package runlock_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	prod  = cluster.Name{Namespace: "tidb", Name: "prod"}
	first = runlock.Owner{Run: "run-1", Host: "a", PID: 7, Command: "backup"}
	other = runlock.Owner{Run: "run-2", Host: "b", PID: 8, Command: "restore"}
)

const ttl = time.Minute

func acquire(t *testing.T, store *objstoretest.Memory, owner runlock.Owner) *runlock.Lock {
	t.Helper()
	l, err := runlock.Acquire(t.Context(), store, prod, owner, ttl)
	require.NoError(t, err)
	return l
}

func faulty(t *testing.T, rules ...fault.Rule) (*objstoretest.Memory, *fault.Plan) {
	t.Helper()
	plan := new(fault.Plan)
	for _, r := range rules {
		require.NoError(t, plan.Add(r))
	}
	return objstoretest.NewMemory(plan), plan
}

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestAcquire_Held_NamesOwnerAndTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		require.NoError(t, runlock.Refusal(t.Context(), store, prod))
		acquire(t, store, first)
		pass(10 * time.Second)
		_, err := runlock.Acquire(t.Context(), store, prod, other, ttl)
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.EqualError(t, err, "acquire lock of tidb/prod: held by run run-1 (backup, pid 7 on host a) "+
			"since 2000-01-01T00:00:00Z, renewed last at 2000-01-01T00:00:00Z")
		require.Contains(t, failure.HintOf(err), "run again with --lock-wait 1m30s")
		require.EqualError(t, runlock.Refusal(t.Context(), store, prod), err.Error())
	})
}

func TestAcquire_OtherCluster_IsFree(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	acquire(t, store, first)
	_, err := runlock.Acquire(t.Context(), store, cluster.Name{Namespace: "tidb", Name: "test"}, other, ttl)
	require.NoError(t, err)
}

// older is the lock of a version that does not record how often it renews: it ends by the clocks.
func older(t *testing.T, store *objstoretest.Memory) {
	t.Helper()
	now := time.Now()
	body, err := json.Marshal(runlock.Record{
		Cluster: prod, Owner: first, Epoch: 1, AcquiredAt: now, RenewedAt: now, ExpiresAt: now.Add(ttl), Nonce: "n",
	})
	require.NoError(t, err)
	_, err = store.Create(t.Context(), manifest.LockKey(prod), body)
	require.NoError(t, err)
}

func TestAcquire_OlderVersions_EndsByTheClocksAndTheirSkew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		older(t, store)
		pass(ttl + ttl/4 - time.Nanosecond)
		_, err := runlock.Acquire(t.Context(), store, prod, other, ttl)
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "until 2000-01-01T00:01:15Z")
		pass(time.Nanosecond)
		require.EqualValues(t, 2, acquire(t, store, other).Epoch())
	})
}

// A lock that is renewed is never taken because of its expiry: that is by the clock of the machine that has it.
func TestAcquire_ExpiredByAnotherClock_IsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l := acquire(t, store, first)
		pass(11 * time.Minute)
		_, err := runlock.Acquire(t.Context(), store, prod, other, ttl)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
		require.Error(t, runlock.Refusal(t.Context(), store, prod))
		require.NoError(t, l.Renew(t.Context()))
	})
}

func TestTake_OwnerDied_TakesOverAndFencesTheOldOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		old := acquire(t, store, first)
		taken := take(t, store, other)
		require.Equal(t, old.Epoch()+1, taken.Epoch())

		err := old.Renew(t.Context())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "taken over by run run-2")
		require.NoError(t, old.Release(t.Context()), "it was lost: nothing to do")
		r, _, err := runlock.Read(t.Context(), store, prod)
		require.NoError(t, err)
		require.Equal(t, other, r.Owner)
		require.False(t, r.Released)
		require.NoError(t, taken.Release(t.Context()))
	})
}

func TestRelease_Owner_FreesAtOnceAndEpochGrows(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l := acquire(t, store, first)
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, l.Release(t.Context()), "twice is fine")
	require.EqualValues(t, 2, acquire(t, store, other).Epoch())
	require.Equal(t, failure.Conflict, failure.KindOf(l.Renew(t.Context())))
}

func TestAcquire_SixteenContenders_ExactlyOneWins(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, store *objstoretest.Memory){
		"new lock": func(*testing.T, *objstoretest.Memory) {},
		"released lock": func(t *testing.T, s *objstoretest.Memory) {
			require.NoError(t, acquire(t, s, first).Release(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The answers of all writes that are done are lost, so that the winner has to find out that it won.
			store, _ := faulty(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Times: -1})
			prepare(t, store)
			var wg sync.WaitGroup
			var mu sync.Mutex
			won, lost := 0, 0
			for range 16 {
				wg.Go(func() {
					_, err := runlock.Acquire(t.Context(), store, prod, first, ttl)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else if failure.Is(err, failure.Conflict) {
						lost++
					}
				})
			}
			wg.Wait()
			require.Equal(t, 1, won)
			require.Equal(t, 15, lost)
		})
	}
}

func TestLock_AnswersLost_AreResolvedByReading(t *testing.T) {
	t.Parallel()
	store, plan := faulty(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Times: -1})
	l := acquire(t, store, first)
	for range 3 {
		require.NoError(t, l.Renew(t.Context()))
	}
	r, _, err := runlock.Read(t.Context(), store, prod)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Renewals)
	require.NoError(t, l.Release(t.Context()))
	require.Empty(t, plan.Unreached())
}

// The answer of a renewal and the read that would resolve it are both lost: the next renewal finds a
// version that it does not know, with its own nonce.
func TestRenew_AfterUnresolvedRenewal_Continues(t *testing.T) {
	t.Parallel()
	store, plan := faulty(t,
		fault.Rule{Point: "s3.PutObject", Position: fault.After, Nth: 2},
		fault.Rule{Point: "s3.GetObject", Position: fault.Before, Nth: 2})
	l := acquire(t, store, first)
	require.Error(t, l.Renew(t.Context()))
	require.NoError(t, l.Renew(t.Context()))
	require.NoError(t, l.Release(t.Context()))
	require.Empty(t, plan.Unreached())
}

func TestAcquire_StoreFails_IsNotHeld(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"s3.GetObject", "s3.PutObject"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			store, _ := faulty(t, fault.Rule{Point: point, Position: fault.Before, Code: "SlowDown"})
			_, err := runlock.Acquire(t.Context(), store, prod, first, ttl)
			require.Equal(t, failure.Limited, failure.KindOf(err))
			acquire(t, store, other)
		})
	}
}

func TestAcquire_ShortLease_IsUsage(t *testing.T) {
	t.Parallel()
	_, err := runlock.Acquire(t.Context(), objstoretest.NewMemory(nil), prod, first, time.Millisecond)
	require.Equal(t, failure.Usage, failure.KindOf(err))
}

func TestAcquire_UnreadableObject_IsCorruptWithHint(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "{}", `{"epoch":1}`} {
		t.Run("body "+body, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			_, err := store.Create(t.Context(), manifest.LockKey(prod), []byte(body))
			require.NoError(t, err)
			_, err = runlock.Acquire(t.Context(), store, prod, first, ttl)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), "locks/tidb.prod.json")
		})
	}
}

func TestBreak_DeadOwner_FreesTheLock(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	require.Equal(t, failure.NotFound, failure.KindOf(runlock.Break(t.Context(), store, prod, 1)))
	l := acquire(t, store, first)
	require.Equal(t, failure.Conflict, failure.KindOf(runlock.Break(t.Context(), store, prod, 7)))
	require.NoError(t, runlock.Break(t.Context(), store, prod, 1))
	require.NoError(t, runlock.Break(t.Context(), store, prod, 1), "twice is fine")
	require.ErrorContains(t, l.Renew(t.Context()), "released by another process")
	require.EqualValues(t, 2, acquire(t, store, other).Epoch())
}

// Who breaks a lock has read it before. If its owner was dead and another run has taken it since, that run lives.
func TestBreak_OlderEpoch_LeavesTheSuccessorsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		dead := acquire(t, store, first)
		successor := take(t, store, other)
		err := runlock.Break(t.Context(), store, prod, dead.Epoch())
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, "run run-2")
		pass(3 * time.Second)
		require.NoError(t, successor.Check(t.Context()), "it is still held")
		record, _, err := runlock.Read(t.Context(), store, prod)
		require.NoError(t, err)
		require.True(t, record.Held(time.Now()))
		require.NoError(t, successor.Release(t.Context()))
	})
}

func TestRenew_ObjectDeleted_IsConflict(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l := acquire(t, store, first)
	require.NoError(t, store.Delete(t.Context(), manifest.LockKey(prod)))
	require.ErrorContains(t, l.Renew(t.Context()), "deleted")
}

// The note of a release neither takes a lock nor disturbs one that a run has.
func TestNoteReleased_OfAFreeLockAlone(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	require.NoError(t, runlock.NoteReleased(t.Context(), store, name, time.Now()))
	_, _, err := runlock.Read(t.Context(), store, name)
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	l, err := runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: "r1", Command: "backup"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, runlock.NoteReleased(t.Context(), store, name, time.Now()))
	record, _, err := runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.Zero(t, record.ReleasedAt, "it is the run's as before")
	require.NoError(t, l.Renew(t.Context()))
	require.NoError(t, l.Release(t.Context()))
	at := time.Now().Truncate(time.Second)
	require.NoError(t, runlock.NoteReleased(t.Context(), store, name, at))
	record, _, err = runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.True(t, record.ReleasedAt.Equal(at))
	_, err = runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: "r2", Command: "backup"}, time.Minute)
	require.NoError(t, err)
	record, _, err = runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.Zero(t, record.ReleasedAt)
}
