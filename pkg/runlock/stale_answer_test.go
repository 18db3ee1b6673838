package runlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// asleep is the store of a process that is suspended in the middle of its next read: the answer was on its way, and is
// read when the process wakes up. Renewals do not happen meanwhile.
type asleep struct {
	objstore.Store
	armed    atomic.Bool // the next read is the one
	sleeping atomic.Bool
	timedOut bool // the call's deadline counts, and not the answer
	slept    func()
	hold     atomic.Pointer[chan struct{}] // renewals wait for it
}

func (a *asleep) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	body, version, err := a.Store.Get(ctx, key)
	if a.armed.Swap(false) {
		a.sleeping.Store(true)
		a.slept()
		a.sleeping.Store(false)
		if a.timedOut {
			<-ctx.Done()
			return nil, "", failure.Wrap(ctx.Err(), failure.Limited, "get object", key)
		}
	}
	return body, version, err
}

func (a *asleep) Replace(ctx context.Context, key string, body []byte, version objstore.Version) (objstore.Version, error) {
	if wake := a.hold.Load(); wake != nil {
		<-*wake
	}
	if a.sleeping.Load() {
		return "", failure.New(failure.Limited, "replace object", key, "the process is suspended")
	}
	return a.Store.Replace(ctx, key, body, version)
}

// An answer that waited for a process that was suspended does not show who has the lock by now.
func TestFence_SuspendedWhileTheAnswerCame_AsksAgain(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		timedOut bool
		ask      func(*testing.T, *runlock.Fence) error
	}{
		"check, an answer":   {false, func(t *testing.T, f *runlock.Fence) error { return f.Check(t.Context()) }},
		"check, its timeout": {true, func(t *testing.T, f *runlock.Fence) error { return f.Check(t.Context()) }},
		"taken": {false, func(t *testing.T, f *runlock.Fence) error {
			require.Error(t, f.Confirm(t.Context()))
			return f.Loss()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := objstoretest.NewMemory(nil)
				var next *runlock.HeldLock
				mine := &asleep{Store: store, timedOut: row.timedOut, slept: func() {
					pass(30 * time.Second) // the lock shows that it is not renewed
					var err error
					next, err = runlock.Take(t.Context(), store, prod, other, long, ignore())
					require.NoError(t, err)
				}}
				f := runlock.NewFence(mine, prod, first)
				require.NoError(t, f.Take(t.Context(), long, ignore()))
				pass(3 * time.Second) // the last confirmation is too old
				mine.armed.Store(true)
				err := row.ask(t, f)
				require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "taken over by run run-2")
				require.NoError(t, next.Release(t.Context()))
				require.NoError(t, f.Release(t.Context()))
			})
		})
	}
}
