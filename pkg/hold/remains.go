package hold

import (
	"fmt"
	"strings"
	"time"
)

// Remains describes what is held now, when it expires at the latest, and what releases it; "" if nothing is held. It
// makes no call.
func (h *Hold) Remains() string {
	h.mu.Lock()
	paused, items, safePoint := len(h.paused), len(h.items), h.safePoint
	none := h.seen != nil || h.released || h.started.IsZero()
	h.mu.Unlock()
	until, stores := time.Now().Add(h.cfg.Lease), 0
	for _, s := range h.stores {
		if expires := s.expires(); !expires.IsZero() {
			until, stores = later(until, expires), stores+1
		}
	}
	if none || paused+items+stores == 0 && safePoint == 0 {
		return ""
	}
	var held []string
	note := func(n int, what string) {
		if n > 0 {
			held = append(held, fmt.Sprintf(what, n))
		}
	}
	note(stores, "leases and import suspensions on %d stores")
	note(paused, "%d schedulers")
	note(items, "%d limits of PD")
	if safePoint != 0 {
		held = append(held, "GC (service "+h.Service()+")")
	}
	return fmt.Sprintf("cluster %s is still held by run %s: %s; it expires on its own at %s; release it now with: %s",
		h.cfg.Cluster, h.cfg.Run, strings.Join(held, ", "), until.UTC().Format(time.RFC3339), h.cfg.Command)
}
