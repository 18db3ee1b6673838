// Package journal is the vocabulary of the runs' journals: what the first record says, and the names of the
// steps, intents and results that somebody besides the step itself reads. gc protects volumes, `tisnap release`
// lets a cluster go and a resumed run finds its volumes by these names, so each is written down here once.
//
// Journals of every released version are read: a name or a field never changes, it is only added. The golden
// file holds that.
package journal
