package runlock

import "time"

// Silent reports whether the owner has missed so many renewals that its process is dead or suspended, if the clocks
// agree. It is for display only; to act, watch the lock (Observe, Take). An owner without a renewal interval, or one
// that has released the lock, is never silent.
func (r *Record) Silent(now time.Time) bool {
	return !r.Released && r.RenewSeconds > 0 && now.Sub(r.RenewedAt) > watchedRenewals*r.RenewInterval()
}

// RenewInterval returns the owner's renewal interval; zero if not recorded.
func (r *Record) RenewInterval() time.Duration {
	return time.Duration(r.RenewSeconds * float64(time.Second))
}
