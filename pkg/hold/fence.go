package hold

import (
	"context"
	"time"
)

// holderLimit bounds reading the lock while the cluster is held. An unreadable lock proves nothing.
const holderLimit = 2 * time.Second

// fenced is checked right before each call that pauses something: a process suspended until another run took its lock
// pauses nothing when it wakes up.
func (h *Hold) fenced() error { return h.cfg.Fence.Current() }

// leaveExpired forgets whatever has expired, if the lock may belong to another run: that run may now hold the same
// things, and releasing them would break its hold. If another process certainly has the lock, unexpired things are left
// to it too; otherwise they are released as usual.
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

// over reports whether something held until then has expired and the lock may belong to another run. It is checked
// right before each releasing call, as the process may be suspended in between.
func (h *Hold) over(till time.Time) bool {
	return h.fenced() != nil && time.Now().After(till.Add(expiryMargin))
}

// overInPD is over for what is paused in PD.
func (h *Hold) overInPD() bool {
	h.mu.Lock()
	till := h.pdTill
	h.mu.Unlock()
	return h.over(till)
}

// lasts records a call that pauses something in PD for one lease.
func (h *Hold) lasts() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pdTill = later(h.pdTill, time.Now().Add(h.cfg.Lease))
}

// leave forgets what the store held, if it has expired or everything is to be left; it reports whether there was
// anything.
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
