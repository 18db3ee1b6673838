// Package runlock admits one run at a time to a cluster, by a conditionally written object in storage. It needs no
// server, and a dead run's lock frees itself.
//
// The object is never deleted. Its epoch grows by one with each owner, which distinguishes an old owner's writes from
// the current one's; a released lock is the same object, marked as released.
//
// Dead owners: a lease is long, to survive outages of object storage, but is renewed every 20 s. A contender that sees
// three missed renewals takes over, after a minute. Expiry does not matter, because two machines' clocks may differ by
// any amount. A live owner that cannot renew changes nothing behind its Fence after two and a half intervals, by its
// own clock.
//
// Clocks: the owner measures its lease by the monotonic clock from before each renewal, and stops (the context of Keep
// ends) before it runs out. Only the lock of an older version, which does not record its renewal interval, expires by
// wall clock: a contender waits a quarter of the lease beyond the expiry, at most 30 s, before it takes over.
package runlock
