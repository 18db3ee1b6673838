// Package lease lets many clients write, read and prune one archive repository at the same time, without locks, and
// without clocks for safety.
//
// A client holds a lease while it uses the repository. A prune condemns objects in an epoch, and deletes those that no
// archive refers to once every lease of an older epoch has ended or was broken; clients of that epoch and later ones
// know what is condemned, and do not refer to it. A lease that looks dead may be broken by anyone: its writer can then
// not commit, since the tombstone that was created in its archive's place, or the archive, came first; a prune that
// rewrites archives replaces none, since they have other versions; a reader finds out when it releases the lease. No
// name is used twice, so a prune that is late deletes only what was garbage when it looked, and always will be.
package lease
