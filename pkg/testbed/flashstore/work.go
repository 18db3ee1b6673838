package flashstore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/wait"
)

// work takes one of the slots for the time of a call. It is not done if the caller goes away first.
func (s *Store) work(ctx context.Context) error {
	open := s.calls.open.Add(1)
	defer s.calls.open.Add(-1)
	for most := s.calls.Most.Load(); open > most && !s.calls.Most.CompareAndSwap(most, open); most = s.calls.Most.Load() {
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	begin := time.Now()
	defer func() {
		s.calls.Busy.Add(int64(time.Since(begin)))
		<-s.slots
	}()
	timer := time.NewTimer(s.cfg.Cost)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read waits until the volume has read what a flashback walks of a region. The volume reads for one call after the other.
func (s *Store) read(ctx context.Context) error {
	if s.cfg.Walk == 0 {
		return nil
	}
	s.mu.Lock()
	if now := time.Now(); s.reading.Before(now) {
		s.reading = now
	}
	s.reading = s.reading.Add(s.cfg.Walk)
	done := s.reading
	s.mu.Unlock()
	return wait.For(ctx, time.Until(done))
}
