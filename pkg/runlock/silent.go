package runlock

import "time"

// Silent reports whether the owner has missed so many renewals that its process is dead, or has stopped, if the clocks
// of the owner and the reader agree. It is for people who look; whoever acts has to watch the lock (Observe, Take). An
// owner that does not say how often it renews is never silent, nor is one that has released the lock.
func (r *Record) Silent(now time.Time) bool {
	return !r.Released && r.RenewSeconds > 0 && now.Sub(r.RenewedAt) > watchedRenewals*r.RenewInterval()
}

// RenewInterval is how often the owner renews; zero is an owner that does not say so.
func (r *Record) RenewInterval() time.Duration {
	return time.Duration(r.RenewSeconds * float64(time.Second))
}
