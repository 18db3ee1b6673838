// Package runs is the set of runs below one storage prefix, by their journals: which are alive, which ended, and which
// died and can be continued or undone.
package runs
