package runs_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/wait"
)

// behind is a store whose locks were written by an owner whose clock is behind the reader's.
type behind struct {
	objstore.Store
	by time.Duration
}

func (b *behind) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	body, version, err := b.Store.Get(ctx, key)
	if err != nil || key != manifest.LockKey(prod) {
		return body, version, err
	}
	var lock runlock.Record
	if err := json.Unmarshal(body, &lock); err != nil {
		return nil, "", err
	}
	lock.RenewedAt = lock.RenewedAt.Add(-b.by)
	body, err = json.Marshal(lock)
	return body, version, err
}

// A run whose process was killed holds its lock for minutes: who looks sees that it is not renewed. It is shown, and no more:
// its state is Running until the lock is free.
func TestRead_LockIsNotRenewed_RunSeemsDead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		renews bool
		ahead  time.Duration // of the reader's clock; the owner's renewals seem so much older
		silent bool          // at the first look
		still  bool          // at the second one
	}{
		"it is alive":                         {renews: true},
		"it is alive, and the reader's ahead": {renews: true, ahead: 5 * time.Minute, silent: true},
		"its process is dead":                 {silent: true, still: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := objstoretest.NewMemory(nil)
				wrote(t, store, "r", phase.Record{Type: phase.RecordDone, Step: "lock"})
				lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r"}, 30*time.Minute)
				require.NoError(t, err)
				if row.renews {
					_, stop := lock.Keep(t.Context())
					defer stop()
				}
				require.NoError(t, wait.For(t.Context(), 3*time.Minute))
				read := objstore.Store(store)
				if row.ahead > 0 {
					read = &behind{Store: store, by: row.ahead}
				}
				r, err := runs.Read(t.Context(), read, "r")
				require.NoError(t, err)
				assert.Equal(t, runs.Running, r.State)
				assert.Equal(t, row.silent, r.Silent)
				require.NotNil(t, r.RenewedAt)
				start := time.Now()
				again, err := runs.LookAgain(t.Context(), read, r)
				require.NoError(t, err)
				assert.Equal(t, runs.Running, again.State)
				assert.Equal(t, row.still, again.Silent)
				assert.LessOrEqual(t, time.Since(start), 30*time.Second)
			})
		})
	}
}

func TestLookAgain_LockIsReleasedMeanwhile_IsUnfinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		wrote(t, store, "r", phase.Record{Type: phase.RecordDone, Step: "lock"})
		lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r"}, 30*time.Minute)
		require.NoError(t, err)
		require.NoError(t, wait.For(t.Context(), 3*time.Minute))
		r, err := runs.Read(t.Context(), store, "r")
		require.NoError(t, err)
		require.True(t, r.Silent)
		require.NoError(t, lock.Release(t.Context()))
		r, err = runs.LookAgain(t.Context(), store, r)
		require.NoError(t, err)
		require.Equal(t, runs.Unfinished, r.State)
		require.False(t, r.Silent)
	})
}
