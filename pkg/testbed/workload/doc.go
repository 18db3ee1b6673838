// Package workload is transfers between accounts by real two-phase commits through client-go, and the proof
// that a copy of the cluster holds exactly what was there at a timestamp.
//
// Every row names the transaction that wrote it, so a row of a copy is right or wrong, never just plausible.
// The total of all accounts is the same at every timestamp. One transfer in ten leaves a row of its own and
// takes an old one away, so that rows appear and disappear. A commit whose answer was lost is undetermined:
// both outcomes are right until something proves one.
package workload
