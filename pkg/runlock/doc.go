// Package runlock admits one run at a time to a cluster, by an object in storage that is written conditionally. No
// server is needed, and a run that dies frees the lock by expiry.
//
// The object is never deleted. Its epoch grows by one with each owner, so that what an old owner wrote can be
// distinguished from what the present one writes; a released lock is the same object marked so.
//
// Dead owners: a lease is long, so that object storage may be away for a while, but it is renewed every 20 s. Who finds
// a lock held watches it: one whose version does not change for three intervals is taken over after a minute. Whether
// it has expired is not asked, as the clocks of two machines may differ by any amount. An owner that is alive and
// cannot renew changes nothing behind its Fence from two and a half intervals on, by its own clock.
//
// Clocks: the owner measures its lease by the monotonic clock from before each renewal, and stops (the context of Keep
// ends) before it runs out. Only the lock of an owner that does not say how often it renews, of an older version, ends
// by the clocks: a contender waits a quarter of the lease beyond the expiry before it takes over, at most 30 s.
package runlock
