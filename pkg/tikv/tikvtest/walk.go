package tikvtest

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// volume is how fast a store's flashbacks read: one volume for all regions of the store, whatever the number of calls.
// The zero value is ready.
type volume struct {
	mu   sync.Mutex
	free time.Time // when what was asked for so far is read
}

// walk takes the time that the store's volume needs for all versions of the keys: a flashback finds the changed keys by
// reading every version of every key.
func (s *Store) walk(ctx context.Context, keys mvcc.Range) error {
	if s.opts.VersionTime == 0 {
		return nil
	}
	versions := 0
	s.data.view(func(r mvcc.Reader) {
		r.Ascend(mvcc.CFWrite, keys.Start, keys.End, func(_, _ []byte) bool {
			versions++
			return true
		})
	})
	s.volume.mu.Lock()
	s.volume.free = later(s.volume.free, time.Now()).Add(time.Duration(versions) * s.opts.VersionTime)
	done := s.volume.free
	s.volume.mu.Unlock()
	timer := time.NewTimer(time.Until(done))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
