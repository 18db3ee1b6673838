// Package runs lists the runs of a storage by their journals: which are alive, which ended, and which died and can be
// resumed or undone.
package runs
