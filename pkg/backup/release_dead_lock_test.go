package backup_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// quietPD is a PD in which nothing is paused, of a cluster without stores.
type quietPD struct{ backup.HeldPD }

func (quietPD) Note(context.Context, string) ([]byte, int64, error) { return nil, 0, nil }

func (quietPD) Schedulers(context.Context) ([]pd.Scheduler, error) { return nil, nil }
func (quietPD) ClusterID(context.Context) (uint64, error)          { return 7, nil }
func (quietPD) Stores(context.Context) ([]pd.Store, error)         { return nil, nil }
func (quietPD) Overrides(context.Context) ([]pd.Override, error)   { return nil, nil }
func (quietPD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) {
	return nil, 0, nil
}

// A release does not wait for the expiry of a killed run's lock: it watches it for a minute, once, and frees it.
func TestRelease_LockOfAKilledRun_IsWatchedOnceAndFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		killed, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r", Command: "backup"}, 10*time.Minute)
		require.NoError(t, err)
		o := backup.ReleaseOptions{Cluster: prod}
		_, err = backup.PlanRelease(t.Context(), store, quietPD{}, o)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "it was renewed a moment ago")
		require.Contains(t, failure.HintOf(err), "run this again in a minute")

		<-time.After(25 * time.Second)
		watched := 0
		o.Watching = func(*runlock.Record) { watched++ }
		o.Planned, err = backup.PlanRelease(t.Context(), store, quietPD{}, o)
		require.NoError(t, err)
		start := time.Now()
		_, err = backup.Release(t.Context(), store, quietPD{}, tikv.Holder(nil), o)
		require.NoError(t, err)
		require.Equal(t, 1, watched)
		require.Less(t, time.Since(start), time.Second)
		require.ErrorContains(t, killed.Renew(t.Context()), "released by another process")
	})
}

// The run lives after all, and renews while the person reads the plan.
func TestRelease_RunRenewsAfterThePlan_IsConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		suspended, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r", Command: "backup"}, 10*time.Minute)
		require.NoError(t, err)
		<-time.After(25 * time.Second)
		o := backup.ReleaseOptions{Cluster: prod}
		o.Planned, err = backup.PlanRelease(t.Context(), store, quietPD{}, o)
		require.NoError(t, err)
		require.NoError(t, suspended.Renew(t.Context()))
		_, err = backup.Release(t.Context(), store, quietPD{}, tikv.Holder(nil), o)
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.NoError(t, suspended.Renew(t.Context()))
	})
}
