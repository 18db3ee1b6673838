// Package hold keeps a live cluster still while its volumes are cut: schedulers and limits paused in PD,
// GC held, imports denied and raft admin commands denied on every store.
//
// Everything is held by leases that expire by themselves if the process dies, renewed at a third of their
// length. The hold connects to all stores before it pauses any. It is proven, not assumed: Prove fails
// unless every lease was valid, every scheduler still paused and the GC safe point still this run's, from before
// the cut to after it. Release ends all of it, on every way out, puts back exactly what was there
// before, and never drops an error: what could not be released is an error of kind Held.
package hold
