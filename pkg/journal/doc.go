// Package journal is the vocabulary of the runs' journals, and their one reader: what the first record says, the names
// of the steps, intents and results that somebody besides the step itself reads, and the Facts that follow from them.
// gc protects volumes, `tisnap release` lets a cluster go and a resumed run finds its volumes by these names, so each
// is written down, and read, here once. StoreJournal keeps a journal in object storage.
//
// Journals of every released version are read: a name or a field never changes, it is only added. The golden file holds
// that.
package journal
