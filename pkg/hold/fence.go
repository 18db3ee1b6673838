package hold

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// holderLimit bounds a reading of the lock while the cluster is held. A lock that cannot be read says nothing.
const holderLimit = 2 * time.Second

// Fence says whether another process has, or may have, the cluster. runlock.Fence is one.
type Fence interface {
	// Current is an error of kind Conflict if the lock may be another run's by now. It asks nobody.
	Current() error
	// Holder reads who has the lock.
	Holder(ctx context.Context) fenced.Holder
}

// fenced is asked right before each call that pauses something: a process that was suspended until its lock was another
// run's pauses nothing when it wakes up.
func (h *Hold) fenced() error {
	if h.cfg.Fence == nil {
		return nil
	}
	return h.cfg.Fence.Current()
}

// leaveExpired forgets what has run out by itself, if the lock may be another run's: by now that run may hold the same
// things, and to release them would break its hold. If another process has the lock for sure, what has not run out is
// left to it too. What has not run out otherwise is released as always.
func (h *Hold) leaveExpired(ctx context.Context) {
	reason := h.fenced()
	if reason == nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, holderLimit)
	replaced := h.cfg.Fence.Holder(asking).Replaced()
	cancel()
	left := false
	h.mu.Lock()
	if held := len(h.paused)+len(h.items) > 0 || h.safePoint != 0; held &&
		(replaced || time.Now().After(h.pdTill.Add(expiryMargin))) {
		h.paused, h.items, h.theirs, h.safePoint, h.still, left = nil, nil, nil, 0, false, true
	}
	h.mu.Unlock()
	for _, s := range h.stores {
		left = s.leave(replaced) || left
	}
	if left {
		h.breakWith(reason)
	}
}

// over reports whether what lasts until then has run out by itself in a process whose lock may be another run's: it is
// asked again right before each call that releases something, as a process may be suspended in between.
func (h *Hold) over(till time.Time) bool {
	return h.fenced() != nil && time.Now().After(till.Add(expiryMargin))
}

// overInPD is over of what is paused in PD.
func (h *Hold) overInPD() bool {
	h.mu.Lock()
	till := h.pdTill
	h.mu.Unlock()
	return h.over(till)
}

// lasts notes that a call is made that pauses something in PD for one lease.
func (h *Hold) lasts() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pdTill = later(h.pdTill, time.Now().Add(h.cfg.Lease))
}

// leave forgets what the store held, if it has run out by itself or all of it is to be left; it reports whether that
// was anything.
func (s *store) leave(all bool) bool {
	expired := s.expired()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leased && !s.imports || !all && !expired {
		return false
	}
	s.leased, s.imports, s.answered.lease, s.answered.imports = false, false, false, false
	return true
}
