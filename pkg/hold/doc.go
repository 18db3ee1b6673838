// Package hold keeps a live cluster still while its volumes are cut: it pauses schedulers and limits in PD, holds GC,
// and denies imports and raft admin commands on every store.
//
// Everything is held by leases that expire on their own if the process dies, and are renewed every third of their
// length. The hold connects to all stores before it pauses any. It is proven, not assumed: Prove fails unless, from
// before the cut to after it, every lease was valid, every scheduler paused and the GC safe point this run's. Release
// ends the hold on every exit path, restores exactly the previous state, and never drops an error: whatever could not
// be released is an error of kind Held.
package hold
