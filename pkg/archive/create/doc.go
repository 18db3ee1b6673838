// Package create archives a backup: a run that reads the snapshots of a sealed backup into an archive repository.
//
// The run's lock is not the cluster's: backups are possible meanwhile. It keeps the archived backup from being deleted,
// and refuses other archives of the cluster. A run that fails or dies stays unfinished, and the same command continues
// it: segments whose packs are all stored are taken over, and the blocks of other stored packs are not read again.
package create
