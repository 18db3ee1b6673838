// Package journal is the vocabulary of the runs' journals, and their one reader: the first record, the names of the
// steps, intents and results that others than the step itself read, and the Facts that follow from them. gc protects
// volumes, `tisnap release` releases a cluster and a resumed run finds its volumes by these names, so each is defined,
// and read, once, here. StoreJournal keeps a journal in object storage.
//
// Journals of every released version are read: a name or a field never changes, it is only added. The golden file holds
// that.
package journal
