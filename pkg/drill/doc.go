// Package drill finds out whether a backup can be restored: it restores it into a cage, a namespace of its own that
// reaches nothing else, checks the data over SQL, and removes everything again, however that went. What it removes it
// knows by its run's id and the UID of the namespace that the run recorded. The journal is in the backup's storage.
package drill
