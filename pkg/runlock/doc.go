// Package runlock admits one run at a time to a cluster, by an object in storage that is written
// conditionally. No server is needed, and a run that dies frees the lock by expiry.
//
// The object is never deleted. Its epoch grows by one with each owner, so that what an old owner wrote can
// be distinguished from what the present one writes; a released lock is the same object marked so.
//
// Clocks: the owner writes when the lock expires by its own clock, and others compare that with theirs.
// A contender waits a quarter of the lease beyond the expiry before it takes over, at most 30 s, so that
// clocks may differ by that much. The owner measures its own lease by the monotonic clock from before each
// renewal, and stops (the context of Keep ends) before it runs out. Clocks that differ by more break the
// exclusion; then the hold's own leases and the manifest's conditional write are what is left.
//
// Dead owners: a lease is long, so that object storage may be away for a while, but it is renewed every 20 s. Who finds
// a lock held that was not renewed for three intervals while it watched takes it over after a minute, whatever the clocks
// say. An owner that is alive and cannot renew changes nothing behind its Fence from two and a half intervals on.
package runlock
