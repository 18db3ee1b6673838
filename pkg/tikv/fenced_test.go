package tikv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// In a process whose lock is another one's nothing is sent to a store: a read of the region metas, too, would take it away
// from who recovers it.
func TestFenced_LockLost_NothingIsSent(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	c := startStandIn(t)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return failure.Wrap(lost, failure.Conflict, "check lock", "c") })
	for name, call := range map[string]func() error{
		"a stream": func() error {
			return c.client.RegionMetas(ctx, c.store.Addr(), func(tikv.RegionMeta) error { return nil })
		},
		"a plan":            func() error { return c.client.Recover(ctx, c.store.Addr(), nil) },
		"one call":          func() error { return c.client.WaitApply(ctx, c.store.Addr(), 1) },
		"one call in batch": func() error { return c.client.PrepareFlashback(ctx, c.store.Addr(), tikv.Flashback{}) },
	} {
		t.Run(name, func(t *testing.T) { // they share the store
			err := call()
			require.ErrorIs(t, err, lost)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
		})
	}
}
