package brcompat

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchParent_OnlyAParentThatEndsCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, is int64
		gone    bool
	}{
		"it lives":                     {70, 70, false},
		"it ends":                      {70, 1, true},
		"it ends, and a reaper adopts": {70, 12, true},
		"it is the first of the pod":   {1, 1, false},
		"it is outside the pod":        {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var parent atomic.Int64
				parent.Store(c.was)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gone := watchParent(ctx, func() int { return int(parent.Load()) })
				<-time.After(time.Hour)
				parent.Store(c.is)
				<-time.After(2 * parentPoll)
				synctest.Wait()
				ended := false
				select {
				case <-gone:
					ended = true
				default:
				}
				require.Equal(t, c.gone, ended)
			})
		})
	}
}
